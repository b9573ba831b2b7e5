//! Lets Go clients talk to our gRPC servers over a unix socket.
//!
//! A Go client that dials a bare socket path sends that path as `:authority`, which the HTTP/2 library beneath our
//! servers refuses as malformed, with no switch to make it accept one. So what comes in passes through a [`Filtered`]
//! stream, which puts a harmless name in its place. The answer's direction is untouched.
//!
//! Only for sockets on this machine: nothing there decides by the authority.

mod frames;
#[cfg(test)]
mod tests;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::Stream;
use tonic::transport::server::Connected;

use frames::Frames;

/// Most bytes taken from a client at once.
const CHUNK: usize = 16 << 10;

/// Connections of a socket, each filtered; what `serve_with_incoming` wants.
#[derive(Debug)]
pub struct Incoming(UnixListener);

/// The connections of a listening socket, filtered.
pub fn incoming(listener: UnixListener) -> Incoming {
    Incoming(listener)
}

impl Stream for Incoming {
    type Item = io::Result<Filtered<UnixStream>>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let accepted = ready!(self.0.poll_accept(context));
        Poll::Ready(Some(accepted.map(|(stream, _)| Filtered::new(stream))))
    }
}

/// A connection whose client may call us by any name.
#[derive(Debug)]
pub struct Filtered<S> {
    inner: S,
    frames: Frames,
    /// What came from the client, rewritten.
    ready: Vec<u8>,
    /// How much of it was read already.
    read: usize,
    chunk: Box<[u8]>,
}

impl<S> Filtered<S> {
    /// Filters what the other side of the connection sends.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            frames: Frames::default(),
            ready: Vec::new(),
            read: 0,
            chunk: vec![0; CHUNK].into(),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Filtered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        while this.read == this.ready.len() {
            this.ready.clear();
            this.read = 0;
            let mut chunk = ReadBuf::new(&mut this.chunk);
            ready!(Pin::new(&mut this.inner).poll_read(context, &mut chunk))?;
            if chunk.filled().is_empty() {
                // A frame that is not whole would not have been understood either.
                return Poll::Ready(Ok(()));
            }
            this.frames.feed(chunk.filled(), &mut this.ready);
        }
        let rest = &this.ready[this.read..];
        let taken = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..taken]);
        this.read += taken;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Filtered<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(context)
    }
}

impl<S: Connected> Connected for Filtered<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> S::ConnectInfo {
        self.inner.connect_info()
    }
}
