//! Certificates of this machine, signed by themselves.

use crate::folder::Folder;
use rcgen::CertifiedKey;

/// Writes `NAME.crt` and `NAME.key`; the certificate.
pub fn write(folder: &Folder, name: &str) -> String {
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(names).unwrap();
    folder.write(&format!("{name}.crt"), &cert.pem());
    folder.write(&format!("{name}.key"), &signing_key.serialize_pem());
    cert.pem()
}
