//! Erasure codes over packets.
//!
//! A *block* of K packets of unequal length gets M *parities*. A receiver that has enough of the K + M symbols
//! can restore the missing packets with their lengths and data sequence numbers (DSNs). All codes implement
//! [`ErasureCode`]: [`Xor`] (one parity), [`ReedSolomon`] (any K of K + M symbols), [`Ldpc`] (only XORs, a few
//! symbols more than K) and [`Ideal`] (any k of n encoded packets, for comparison).
//!
//! ```
//! use spindle_codes::{Body, Content, ErasureCode, ReedSolomon, Shape, Source};
//!
//! let code = ReedSolomon::new();
//! let shape = Shape::new(3, 2);
//! let packets = [&b"never"[..], b"drop a", b"packet"];
//! let source = |i: usize| Source { dsn: 1000 + i as u32, body: Body::Bytes(packets[i]) };
//! let block = [source(0), source(1), source(2)];
//! let parities = [code.encode(shape, 0, &block)?, code.encode(shape, 1, &block)?];
//!
//! let arrived = [None, Some(block[1]), None];
//! let parities = [parities[0].as_parity(0), parities[1].as_parity(1)];
//! let recovered = code.decode(shape, &arrived, &parities)?;
//! assert_eq!(recovered[0].content, Content::Bytes(b"never".to_vec()));
//! assert_eq!((recovered[1].index, recovered[1].dsn), (2, 1002));
//! # Ok::<(), spindle_codes::CodeError>(())
//! ```
//!
//! In CAPS the packets themselves are not sent. Its n encoded packets are the parities of a block of shape
//! (k, n) with all packets missing:
//!
//! ```
//! use spindle_codes::{Body, ErasureCode, Ldpc, Shape, Source};
//!
//! let code = Ldpc::non_systematic(Ldpc::SEED);
//! let shape = Shape::new(3, 5);
//! let packets = [&b"never"[..], b"drop a", b"packet"];
//! let source = |i: usize| Source { dsn: 1000 + i as u32, body: Body::Bytes(packets[i]) };
//! let encoded = code.encode_unit(shape, &[source(0), source(1), source(2)])?;
//!
//! let mut unit = code.tracker(shape)?;
//! let arrived: Vec<_> = (1..5)
//!     .filter(|index| unit.add_parity(*index))
//!     .map(|index| encoded[index].as_parity(index))
//!     .collect();
//! assert!(unit.is_complete());
//! assert_eq!(code.decode(shape, &[None; 3], &arrived)?.len(), 3);
//! # Ok::<(), spindle_codes::CodeError>(())
//! ```
//!
//! # Modules
//!
//! The modules are private; the crate root exports their items. Read them in this order:
//!
//! - `symbol`: the input and output of a code ([`Source`], [`Parity`], [`Symbol`], [`Recovered`]), and a sum
//!   that grows packet by packet ([`Combination`]).
//! - `code`: the trait [`ErasureCode`] with its default encoder and decoder, [`Shape`] and [`Limits`].
//! - `xor`, `reed_solomon`, `ldpc`, `ideal`: the codes. `ldpc/ensemble.rs` documents how the rows are drawn.
//! - `tracker`: [`Tracker`], which reports when a block can be decoded.
//! - `block`: how CoFUSO chooses the size of a block ([`dynamic_shape`], [`fixed_shape`], [`authors_shape`]).
//! - `field`, `kernel`, `matrix`, `bits`: arithmetic ([`gf_mul`], [`Kernel`]) and linear algebra.
//! - `error`: [`CodeError`] and [`Contradiction`].
//!
//! # Conventions
//!
//! - **Units and ranges.** Lengths are in bytes, at most [`MAX_SYMBOL_LEN`]. [`ErasureCode::limits`] states the
//!   largest shapes of a code. Packets and parities are numbered from 0. Only the low 32 bits of a DSN are
//!   used.
//! - **Payloads** are real bytes or plain lengths ([`Body::Length`]), for simulations that move no bytes. Both
//!   decode to the same lengths and DSNs, or fail with the same error.
//! - **Determinism.** A code's output depends on its arguments and, for [`Ldpc`], on its seed. It is the same
//!   on every machine and with every [`Kernel`].
//! - **Errors.** Every call answers arbitrary input with a result or a [`CodeError`].
//!   [`CodeError::Undecodable`] only means that more symbols must arrive. [`CodeError::is_contradiction`] is
//!   true if the symbols cannot belong to one block.
//! - **`unsafe`** is used only in the vector kernels, where the processor's instructions require it.

mod bits;
mod block;
mod code;
mod error;
mod field;
mod ideal;
mod kernel;
mod ldpc;
mod matrix;
mod reed_solomon;
mod symbol;
mod tracker;
mod xor;

pub use block::{AUTHORS_MAX_SOURCES, authors_shape, dynamic_shape, fixed_shape};
pub use code::{ErasureCode, Limits, Shape};
pub use error::{CodeError, Contradiction};
pub use field::{gf_inv, gf_mul};
pub use ideal::Ideal;
pub use kernel::Kernel;
pub use ldpc::Ldpc;
pub use reed_solomon::ReedSolomon;
pub use symbol::{
    Body, Combination, Content, Label, MAX_SYMBOL_LEN, Parity, Recovered, Source, Symbol,
};
pub use tracker::Tracker;
pub use xor::Xor;
