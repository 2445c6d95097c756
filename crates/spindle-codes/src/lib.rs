//! Erasure codes over packets.
//!
//! A *block* of K packets of unequal length gets M *parities*; whoever has enough of the K + M can
//! tell the packets that are missing, with their lengths and DSNs. All codes stand behind
//! [`ErasureCode`]: [`Xor`] (one parity) and [`ReedSolomon`] (any K of K + M).
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
//! Bodies may be mere lengths, for simulations that move no bytes: see [`Body::Length`].
//!
//! `unsafe` is in the vector kernels only, where the processor's instructions ask for it.

mod block;
mod code;
mod error;
mod field;
mod kernel;
mod matrix;
mod reed_solomon;
mod symbol;
mod xor;

pub use block::{AUTHORS_MAX_SOURCES, authors_shape, dynamic_shape, fixed_shape};
pub use code::{ErasureCode, Limits, Shape};
pub use error::{CodeError, Contradiction};
pub use field::{gf_inv, gf_mul};
pub use kernel::Kernel;
pub use reed_solomon::ReedSolomon;
pub use symbol::{
    Body, Combination, Content, Label, MAX_SYMBOL_LEN, Parity, Recovered, Source, Symbol,
};
pub use xor::Xor;
