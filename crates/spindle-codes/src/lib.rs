//! Erasure codes over packets.
//!
//! A *block* of K packets of unequal length gets M *parities*; whoever has enough of the K + M can
//! tell the packets that are missing, with their lengths and DSNs. All codes stand behind
//! [`ErasureCode`]: [`Xor`] (one parity), [`ReedSolomon`] (any K of K + M), [`Ldpc`] (XORs only, a
//! few more than K) and [`Ideal`] (any k of n encoded packets, for comparison).
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
//! Where the packets themselves are not sent (CAPS), n encoded packets of k are the parities of a
//! block of shape (k, n) all of whose packets are missing:
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
//! Bodies may be mere lengths, for simulations that move no bytes: see [`Body::Length`].
//!
//! `unsafe` is in the vector kernels only, where the processor's instructions ask for it.

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
