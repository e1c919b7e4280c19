"""A gRPC client for the tests of whole programs: client.py ADDRESS AUTHORITY CALLS

CALLS is a JSON list of {"method", "messages": [text], "timeout", "metadata": {}}; prints a JSON list of
{"code", "details", "messages": [text], "initial": {}, "trailing": {}}.
"""

import json
import sys

import grpc

KINDS = {"Unary": "uu", "Fail": "uu", "Wait": "uu", "Download": "us", "Upload": "su", "Chat": "ss"}


def call(channel, wanted):
    method, messages = wanted["method"], [text.encode() for text in wanted["messages"]]
    kind = KINDS[method]
    make = {"uu": channel.unary_unary, "us": channel.unary_stream, "su": channel.stream_unary, "ss": channel.stream_stream}
    stub = make[kind](f"/tidegate.Test/{method}")
    argument = iter(messages) if kind[0] == "s" else messages[0]
    options = {
        "timeout": wanted.get("timeout", 20),
        "metadata": tuple(wanted.get("metadata", {}).items()),
    }
    got, rpc = [], None
    try:
        if kind[1] == "u":
            message, rpc = stub.with_call(argument, **options)
            got.append(message)
        else:
            rpc = stub(argument, **options)
            got.extend(rpc)
    except grpc.RpcError as error:
        rpc = error
        got.extend([])
    metadata = lambda pairs: {key: value for key, value in pairs or () if isinstance(value, str)}
    return {
        "code": rpc.code().value[0],
        "details": rpc.details(),
        "messages": [message.decode() for message in got],
        "initial": metadata(rpc.initial_metadata()),
        "trailing": metadata(rpc.trailing_metadata()),
    }


def main():
    address, authority, calls = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    options = [
        ("grpc.default_authority", authority),
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
        ("grpc.max_metadata_size", 128 * 1024),
        ("grpc.absolute_max_metadata_size", 256 * 1024),
    ]
    with grpc.insecure_channel(address, options=options) as channel:
        print(json.dumps([call(channel, wanted) for wanted in calls]))


if __name__ == "__main__":
    sys.exit(main())
