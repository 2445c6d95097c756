//! Random bytes of the operating system.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::NetError;

/// `N` random bytes of the operating system (getrandom(2)), fit for keys.
///
/// # Errors
/// [`NetError::System`] if the operating system has none.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], NetError> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(n) => filled += n,
            Err(Errno::INTR) => {}
            Err(e) => {
                let what = "no random numbers from the operating system (getrandom(2))";
                return Err(NetError::system(what)(e.into()));
            }
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_a_seed_differs_from_draw_to_draw() {
        let draws: Vec<[u8; 32]> = (0..64).map(|_| random_bytes().unwrap()).collect();
        for k in 0..32 {
            // All 64 draws agree in one byte with a probability of 1 in 256^63.
            assert!(draws.iter().any(|d| d[k] != draws[0][k]), "byte {k}");
        }
    }
}
