//! Release archives as they are published: a README and the program in a gzip tar. And as they are not.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};
pub use tar::EntryType;
use tar::Header;

/// One entry of an archive.
#[derive(Debug, Clone, Copy)]
pub enum Member<'a> {
    /// A regular file: its path, its bytes, its mode.
    File(&'a str, &'a [u8], u32),
    /// A symbolic link: its path and where it points to.
    Link(&'a str, &'a str),
    /// A hard link: its path and the entry it is another name of.
    HardLink(&'a str, &'a str),
    /// Something else without bytes, such as a FIFO or a device: its path and its type.
    Special(&'a str, EntryType),
}

/// `README.md` and `name`, the program.
pub fn pack(name: &str, program: &[u8]) -> Vec<u8> {
    pack_members(&[Member::File("README.md", b"A collector.\n", 0o644), Member::File(name, program, 0o755)])
}

/// These entries in this order.
pub fn pack_members(members: &[Member<'_>]) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for member in members {
        let mut header = Header::new_gnu();
        match member {
            Member::File(path, bytes, mode) => {
                header.set_size(bytes.len() as u64);
                header.set_mode(*mode);
                builder.append_data(&mut header, path, *bytes)
            }
            Member::Link(path, target) => {
                header.set_entry_type(EntryType::Symlink);
                header.set_size(0);
                builder.append_link(&mut header, path, target)
            }
            Member::HardLink(path, target) => {
                header.set_entry_type(EntryType::Link);
                header.set_size(0);
                builder.append_link(&mut header, path, target)
            }
            Member::Special(path, entry_type) => {
                header.set_entry_type(*entry_type);
                header.set_size(0);
                header.set_mode(0o755);
                builder.append_data(&mut header, path, &[][..])
            }
        }
        .expect("writing to memory");
    }
    let mut encoder = builder.into_inner().expect("writing to memory");
    encoder.flush().expect("writing to memory");
    encoder.finish().expect("writing to memory")
}
