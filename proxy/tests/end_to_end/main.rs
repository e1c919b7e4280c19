//! The data path over real sockets: scripted endpoints on one side, scripted callers on the other, real workers between.

#[cfg(test)]
mod support;

#[cfg(test)]
mod blame;
#[cfg(test)]
mod drain;
#[cfg(test)]
mod endpoints;
#[cfg(test)]
mod grpc;
#[cfg(test)]
mod headers;
#[cfg(test)]
mod http1;
#[cfg(test)]
mod http2;
#[cfg(test)]
mod opaque;
#[cfg(test)]
mod retry;
#[cfg(test)]
mod upgrade;
#[cfg(test)]
mod uploads;
