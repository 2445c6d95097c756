//! The blocks of a pcapng file, as bytes in little-endian order (draft-ietf-opsawg-pcapng,
//! sections 3 and 4).

/// Packets begin with an IPv4 or IPv6 header (registry of link types, tcpdump.org/linktypes.html).
pub const LINKTYPE_RAW: u16 = 101;

/// The longest packet in a capture, in bytes: the longest IPv4 packet, or the longest IPv6 packet (with its
/// 40-byte header) that is not a jumbogram.
pub const MAX_PACKET: usize = 65_535 + 40;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const VERSION: (u16, u16) = (1, 0);

const OPT_END: u16 = 0;
const OPT_COMMENT: u16 = 1;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;

/// Times in units of 10^-9 s: the value of if_tsresol.
const NANOSECONDS: u8 = 9;

/// What precedes the data of an enhanced packet block: type, length, interface, time in two halves, captured
/// and original length.
const PACKET_HEAD: usize = 28;

/// Longer options are cut because their length field has 16 bits.
const MAX_OPTION: usize = 4_096;

/// A section header that names the program and, in its comment, the run.
pub(crate) fn section_header(out: &mut Vec<u8>, program: &str, comment: &str) {
    begin(out, SECTION_HEADER);
    out.extend(BYTE_ORDER_MAGIC.to_le_bytes());
    out.extend(VERSION.0.to_le_bytes());
    out.extend(VERSION.1.to_le_bytes());
    // The length of the section is not known in advance: -1.
    out.extend((-1i64).to_le_bytes());
    text_option(out, SHB_USERAPPL, program);
    text_option(out, OPT_COMMENT, comment);
    end_of_options(out);
    end(out);
}

/// An interface description.
pub(crate) fn interface(out: &mut Vec<u8>, name: &str) {
    begin(out, INTERFACE_DESCRIPTION);
    out.extend(LINKTYPE_RAW.to_le_bytes());
    out.extend(0u16.to_le_bytes());
    // No limit: every packet is captured whole.
    out.extend(0u32.to_le_bytes());
    text_option(out, IF_NAME, name);
    option(out, IF_TSRESOL, &[NANOSECONDS]);
    end_of_options(out);
    end(out);
}

/// Begins an enhanced packet block in `out`, which must be empty; the packet's bytes come next.
pub(crate) fn begin_packet(out: &mut Vec<u8>, interface: u32, nanos: u64) {
    begin(out, ENHANCED_PACKET);
    out.extend(interface.to_le_bytes());
    out.extend(((nanos >> 32) as u32).to_le_bytes());
    out.extend((nanos as u32).to_le_bytes());
    // Both lengths are filled in when the packet's bytes are complete.
    out.extend([0; 8]);
}

/// Ends the block that [`begin_packet`] began. Returns the packet's length.
pub(crate) fn end_packet(out: &mut Vec<u8>, comment: &str) -> usize {
    let len = out.len() - PACKET_HEAD;
    let field = (len as u32).to_le_bytes();
    out[20..24].copy_from_slice(&field);
    out[24..28].copy_from_slice(&field);
    pad(out);
    if !comment.is_empty() {
        text_option(out, OPT_COMMENT, comment);
        end_of_options(out);
    }
    end(out);
    len
}

/// Writes a block's type and reserves room for its length.
fn begin(out: &mut Vec<u8>, kind: u32) {
    debug_assert!(out.is_empty(), "one block at a time");
    out.extend(kind.to_le_bytes());
    out.extend([0; 4]);
}

/// Writes the block's length at its end and after its type.
fn end(out: &mut Vec<u8>) {
    let len = (out.len() as u32 + 4).to_le_bytes();
    out.extend(len);
    out[4..8].copy_from_slice(&len);
}

fn text_option(out: &mut Vec<u8>, code: u16, text: &str) {
    let fits = text.char_indices().map(|(i, c)| i + c.len_utf8());
    let cut = fits
        .take_while(|end| *end <= MAX_OPTION)
        .last()
        .unwrap_or(0);
    if cut > 0 {
        option(out, code, &text.as_bytes()[..cut]);
    }
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    out.extend(value);
    pad(out);
}

fn end_of_options(out: &mut Vec<u8>) {
    out.extend(OPT_END.to_le_bytes());
    out.extend(0u16.to_le_bytes());
}

/// Pads to a multiple of 32 bits. Every block starts at such a multiple.
fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn u32_at(b: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(b[at..at + 4].try_into().unwrap())
    }

    #[test]
    fn blocks_have_the_layout_of_the_draft() {
        let mut b = Vec::new();
        section_header(&mut b, "", "");
        let want: [u8; 32] = [
            0x0a, 0x0d, 0x0d, 0x0a, 32, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 0xff, 0xff,
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 32, 0, 0, 0,
        ];
        assert_eq!(b, want);
        b.clear();
        interface(&mut b, "");
        let want: [u8; 32] = [
            1, 0, 0, 0, 32, 0, 0, 0, 101, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0,
            32, 0, 0, 0,
        ];
        assert_eq!(b, want);
    }

    #[test]
    fn packets_of_any_length_are_padded_to_32_bits() {
        for len in 0..9 {
            for comment in ["", "dropped", "verlor\u{e9}n"] {
                let mut b = Vec::new();
                begin_packet(&mut b, 3, 0x1_0000_0002);
                b.extend(vec![7u8; len]);
                assert_eq!(end_packet(&mut b, comment), len);
                assert_eq!(b.len() % 4, 0);
                assert_eq!(u32_at(&b, 4) as usize, b.len());
                assert_eq!(u32_at(&b, b.len() - 4) as usize, b.len());
                assert_eq!((u32_at(&b, 8), u32_at(&b, 12), u32_at(&b, 16)), (3, 1, 2));
                assert_eq!((u32_at(&b, 20), u32_at(&b, 24)), (len as u32, len as u32));
            }
        }
    }

    #[test]
    fn a_long_comment_is_cut_between_characters() {
        let mut b = Vec::new();
        begin_packet(&mut b, 0, 0);
        end_packet(&mut b, &"\u{20ac}".repeat(50_000));
        let len = u16::from_le_bytes(b[30..32].try_into().unwrap()) as usize;
        assert!(len <= MAX_OPTION && len.is_multiple_of(3), "{len}");
    }
}
