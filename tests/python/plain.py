"""Plain TCP and UDP servers: plain.py KIND PORT WORD, of kinds

greet   TCP: says WORD at once, then everything back until the caller's end
late    TCP: reads to the caller's end, then answers WORD as often as makes 10 MB, and closes
udp     UDP: answers WORD to every packet
"""

import socket
import sys
import threading

kind, port, word = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()


def greet(connection):
    connection.sendall(word + b"\n")
    while data := connection.recv(65536):
        connection.sendall(data)
    connection.close()


def late(connection):
    while connection.recv(65536):
        pass
    connection.sendall((word * (10_000_000 // len(word) + 1))[:10_000_000])
    connection.close()


if kind == "udp":
    server = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    server.bind(("::", port))
    while True:
        _, peer = server.recvfrom(2048)
        server.sendto(word, peer)
server = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
while True:
    connection, _ = server.accept()
    threading.Thread(target={"greet": greet, "late": late}[kind], args=(connection,), daemon=True).start()
