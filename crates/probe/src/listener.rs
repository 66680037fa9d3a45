//! Who listens on a port.
//!
//! The kernel lists the listening sockets of our network namespace with their inodes (`/proc/net/tcp` and
//! `tcp6`, see proc(5)), and every process lists its open sockets by inode. Where the two meet is the process
//! that answers. This takes the right to look: the same user, or `CAP_SYS_PTRACE`.

use std::{
    collections::BTreeSet,
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use crate::process::Process;

/// The state of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// The processes that hold a socket listening on `host:port`; `known`, which had it before, is asked first.
///
/// A host that is no address counts as this machine's loopback addresses.
pub(crate) fn listeners(host: &str, port: u16, known: Option<Process>) -> io::Result<Vec<Process>> {
    let sockets = listening_sockets(host, port)?;
    if sockets.is_empty() {
        return Ok(Vec::new());
    }
    if let Some(known) = known
        && known.is_alive()
        && holds(known.pid(), &sockets)
    {
        return Ok(vec![known]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if holds(pid, &sockets)
            && let Ok(process) = Process::with_pid(pid)
            && process.is_alive()
        {
            found.push(process);
        }
    }
    Ok(found)
}

fn listening_sockets(host: &str, port: u16) -> io::Result<BTreeSet<u64>> {
    let mut sockets = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        match fs::read_to_string(table) {
            Ok(text) => sockets.extend(text.lines().skip(1).filter_map(parse_line)),
            // A machine without IPv6 has no such table.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(reached(&sockets, host, port))
}

/// Of several listeners on one port a connection goes to the one with the exact address before the one that
/// takes any address.
fn reached(sockets: &[Socket], host: &str, port: u16) -> BTreeSet<u64> {
    let wanted: Vec<IpAddr> = match host.parse::<IpAddr>() {
        Ok(address) => vec![address],
        Err(_) => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
    };
    let pick = |test: &dyn Fn(&IpAddr) -> bool| -> BTreeSet<u64> {
        let fits = |socket: &&Socket| socket.port == port && test(&socket.address);
        sockets.iter().filter(fits).map(|socket| socket.inode).collect()
    };
    let exact = pick(&|address| wanted.contains(&address.to_canonical()));
    if exact.is_empty() { pick(&IpAddr::is_unspecified) } else { exact }
}

#[derive(Debug, PartialEq, Eq)]
struct Socket {
    address: IpAddr,
    port: u16,
    inode: u64,
}

/// `sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …`, addresses in hexadecimal words
/// of the machine's own byte order.
fn parse_line(line: &str) -> Option<Socket> {
    let mut fields = line.split_whitespace();
    let (address, port) = fields.nth(1)?.split_once(':')?;
    if fields.nth(1)? != LISTEN {
        return None;
    }
    Some(Socket {
        address: parse_address(address)?,
        port: u16::from_str_radix(port, 16).ok()?,
        inode: fields.nth(5)?.parse().ok()?,
    })
}

fn parse_address(hex: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let digits = hex.get(at..at + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    match hex.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let bytes: Vec<u8> = [word(0)?, word(8)?, word(16)?, word(24)?].concat();
            let bytes: [u8; 16] = bytes.try_into().ok()?;
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

fn holds(pid: u32, sockets: &BTreeSet<u64>) -> bool {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    entries.flatten().any(|entry| {
        fs::read_link(entry.path())
            .ok()
            .and_then(|target| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
            .is_some_and(|inode| sockets.contains(&inode))
    })
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let line = "   0: 0100007F:334D 00000000:0000 0A 00000000:00000000 00:00000000 00000000 10001        0 4711 1 0";
        let socket = Socket { address: Ipv4Addr::LOCALHOST.into(), port: 13133, inode: 4711 };
        if cfg!(target_endian = "little") {
            assert_eq!(parse_line(line), Some(socket));
        }
        assert_eq!(parse_line(&line.replace(" 0A ", " 01 ")), None, "established, not listening");
        assert_eq!(parse_address("00000000000000000000000000000000"), Some(Ipv6Addr::UNSPECIFIED.into()));
        assert_eq!(parse_address("0000"), None);
        assert_eq!(parse_line("  sl  local_address rem_address   st"), None);
    }

    #[test]
    fn the_exact_address_comes_before_any_address() {
        let socket = |address: &str, inode| Socket { address: address.parse().unwrap(), port: 9, inode };
        let both = [socket("0.0.0.0", 1), socket("127.0.0.1", 2), socket("127.0.0.2", 3), socket("::", 4)];
        assert_eq!(reached(&both, "127.0.0.1", 9), BTreeSet::from([2]));
        assert_eq!(reached(&both, "127.0.0.3", 9), BTreeSet::from([1, 4]));
        assert_eq!(reached(&both, "localhost", 9), BTreeSet::from([2]));
        assert_eq!(reached(&both, "127.0.0.1", 8), BTreeSet::new());
        let mapped = [socket("::ffff:127.0.0.1", 5)];
        assert_eq!(reached(&mapped, "127.0.0.1", 9), BTreeSet::from([5]));
    }

    #[test]
    fn our_own_listening_socket_is_found_to_be_ours() {
        let own = Process::with_pid(std::process::id()).unwrap();
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        assert_eq!(listeners("127.0.0.1", port, None).unwrap(), [own]);
        assert_eq!(listeners("127.0.0.1", port, Some(own)).unwrap(), [own]);
        drop(socket);
        assert_eq!(listeners("127.0.0.1", port, Some(own)).unwrap(), []);
    }
}
