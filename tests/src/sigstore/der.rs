//! As much of DER as a certificate and a timestamp take.

/// Universal and context tags used here.
pub(super) mod tag {
    pub(crate) const BOOLEAN: u8 = 0x01;
    pub(crate) const INTEGER: u8 = 0x02;
    pub(crate) const BIT_STRING: u8 = 0x03;
    pub(crate) const OCTET_STRING: u8 = 0x04;
    pub(crate) const OID: u8 = 0x06;
    pub(crate) const UTF8_STRING: u8 = 0x0c;
    pub(crate) const UTC_TIME: u8 = 0x17;
    pub(crate) const GENERALIZED_TIME: u8 = 0x18;
    pub(crate) const SEQUENCE: u8 = 0x30;
    pub(crate) const SET: u8 = 0x31;

    /// `[number]`, constructed.
    pub(crate) const fn context(number: u8) -> u8 {
        0xa0 | number
    }
}

/// Tag, length, and the parts one after another.
pub(super) fn der<P: AsRef<[u8]>>(tag: u8, parts: &[P]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.as_ref().len()).sum();
    let mut out = vec![tag];
    let bytes = length.to_be_bytes();
    let significant = &bytes[bytes.iter().take_while(|&&byte| byte == 0).count()..];
    if length >= 0x80 {
        out.push(0x80 | u8::try_from(significant.len()).unwrap());
        out.extend_from_slice(significant);
    } else {
        out.push(u8::try_from(length).unwrap());
    }
    for part in parts {
        out.extend_from_slice(part.as_ref());
    }
    out
}

pub(super) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    der(tag::SEQUENCE, parts)
}

pub(super) fn octets(bytes: &[u8]) -> Vec<u8> {
    der(tag::OCTET_STRING, &[bytes])
}

pub(super) fn utf8(text: &str) -> Vec<u8> {
    der(tag::UTF8_STRING, &[text])
}

/// A small positive number.
pub(super) fn integer(value: u8) -> Vec<u8> {
    assert!(value < 0x80, "one byte only");
    der(tag::INTEGER, &[[value]])
}

/// Bytes without unused bits.
pub(super) fn bits(bytes: &[u8]) -> Vec<u8> {
    der(tag::BIT_STRING, &[&[0], bytes])
}

/// An object identifier, from its dotted text.
pub(super) fn oid(dotted: &str) -> Vec<u8> {
    let arcs: Vec<u32> = dotted.split('.').map(|arc| arc.parse().unwrap()).collect();
    let mut content = vec![u8::try_from(arcs[0] * 40 + arcs[1]).unwrap()];
    for &arc in &arcs[2..] {
        let groups = (0..5).rev().map(|group| (arc >> (7 * group)) & 0x7f);
        let mut septets: Vec<u8> = groups
            .skip_while(|&septet| septet == 0)
            .map(|septet| u8::try_from(septet | 0x80).unwrap())
            .collect();
        septets.pop();
        content.extend(septets);
        content.push(u8::try_from(arc & 0x7f).unwrap());
    }
    der(tag::OID, &[content])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_identifiers_are_as_in_the_books() {
        assert_eq!(integer(5), [2, 1, 5]);
        assert_eq!(octets(&[7; 200])[..3], [4, 0x81, 200]);
        assert_eq!(octets(&[7; 300])[..4], [4, 0x82, 1, 44]);
        assert_eq!(oid("1.2.840.113549.1.9.3"), [6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 3]);
        assert_eq!(oid("2.5.29.0"), [6, 3, 0x55, 0x1d, 0]);
    }
}
