//! nginx with one worker, least connections and keep-alive to the endpoints.

use super::{Setup, Speaks, write};
use std::fmt::Write as _;
use std::process::Command;

pub(super) fn command(setup: &Setup<'_>) -> anyhow::Result<Command> {
    let configuration = write(setup, "nginx.conf", &configuration(setup)?)?;
    let mut command = Command::new("nginx");
    command.arg("-p").arg(setup.directory).arg("-c").arg(configuration);
    Ok(command)
}

fn configuration(setup: &Setup<'_>) -> Result<String, std::fmt::Error> {
    let mut servers = String::new();
    for endpoint in setup.endpoints {
        writeln!(servers, "        server {endpoint};")?;
    }
    let listen = setup.listen;
    let head = "daemon off;\nworker_processes 1;\npid nginx.pid;\nerror_log stderr error;\n\
                include /etc/nginx/modules-enabled/*.conf;\nevents { worker_connections 20000; }\n";
    if setup.speaks == Speaks::Tcp {
        return Ok(format!(
            "{head}stream {{\n    upstream origin {{\n        least_conn;\n{servers}    }}\n    server {{ listen {listen}; proxy_pass origin; }}\n}}\n"
        ));
    }
    let (front, pass) = match setup.speaks {
        Speaks::Http1 | Speaks::Tcp => ("", "proxy_pass http://origin;"),
        Speaks::Http2 => (" http2", "proxy_pass http://origin;"),
        Speaks::Grpc => (" http2", "grpc_pass grpc://origin;"),
    };
    Ok(format!(
        "{head}http {{\n    access_log off;\n    keepalive_requests 100000000;\n    client_body_temp_path body;\n    proxy_temp_path proxy;\n\
         \x20   fastcgi_temp_path fastcgi;\n    uwsgi_temp_path uwsgi;\n    scgi_temp_path scgi;\n\
         \x20   upstream origin {{\n        least_conn;\n{servers}        keepalive 512;\n        keepalive_requests 100000000;\n    }}\n\
         \x20   server {{\n        listen {listen}{front};\n        location / {{\n            proxy_http_version 1.1;\n\
         \x20           proxy_set_header Connection \"\";\n            {pass}\n        }}\n    }}\n}}\n"
    ))
}
