//! What the application says about its messages.

use super::Stack;
use crate::Handle;
use crate::recovery::MessageHints;

impl Stack {
    /// Describes the message that the application is about to write on a connection: when it must arrive, how
    /// urgent it is, and how long it is. Call it before the message's first byte is [sent](Self::send). The
    /// hints hold until the next call. [`MessageHints::default`] ends them.
    ///
    /// Recovery policies may use them ([`View::message`](crate::recovery::View::message)). Nothing is sent to
    /// the peer.
    pub fn set_message(&mut self, h: Handle, hints: MessageHints) {
        if let Some(c) = self.table.get_mut(h) {
            c.set_message(hints);
        }
    }
}
