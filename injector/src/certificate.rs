//! The injector's own certificate: what is held, when it is due, and how it is made anew. Pure: the time is an argument.
//!
//! One authority signs one serving certificate. Both are renewed when a third of their life is left. A new authority is known
//! to its callers for a whole round before the first certificate that it signs is served, and the old one stays in the bundle
//! until it expires, so that no caller ever meets a certificate that it cannot check:
//!
//! ```text
//! round n      authority due: new key; bundle = new + old;  served: signed by old
//! round n+1    certificate due: signed by new;              served: signed by new, bundle = new + old
//! ```

pub mod keeper;
pub mod serving;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

/// Keys of the Secret. The names of `tls.*` are those of Secrets of type `kubernetes.io/tls`, and of cert-manager.
pub mod key {
    /// Certificate authorities that callers may trust, PEM, newest first.
    pub const AUTHORITIES: &str = "ca.crt";
    /// Private key of the newest authority, PEM.
    pub const AUTHORITY_KEY: &str = "ca.key";
    /// Certificate chain to serve, PEM.
    pub const CHAIN: &str = "tls.crt";
    /// Its private key, PEM.
    pub const KEY: &str = "tls.key";
}

/// Certificates count as valid from an hour before they are made: clocks of a cluster differ.
const BACKDATED: Duration = Duration::from_hours(1);
/// Authorities in the bundle: the newest and those it replaced. A bundle is part of every pod.
const AUTHORITIES_MAX: usize = 3;

/// For whom certificates are made, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Names of the Services in front, or addresses.
    pub names: Vec<String>,
    /// Life of a serving certificate.
    pub certificate: Duration,
    /// Life of an authority.
    pub authority: Duration,
}

/// What is in the Secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Held {
    /// The bundle, PEM, newest first.
    pub authorities: String,
    /// Key of the newest authority, PEM.
    authority_key: String,
    /// What is served, PEM.
    pub chain: String,
    /// Its key, PEM.
    pub key: String,
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Keys stay out of logs.
        f.debug_struct("Held").finish_non_exhaustive()
    }
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing.
    Nothing,
    /// A serving certificate, signed by the newest authority.
    Certificate,
    /// An authority; what is served stays.
    Authority,
    /// Both: there is nothing that could be kept.
    Everything,
}

/// Why a certificate cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is no PEM.
    #[error("no certificate in PEM format")]
    Pem,
    /// It is no certificate.
    #[error("not a certificate")]
    X509,
}

impl Held {
    /// Reads a Secret; `None` when something is missing.
    pub fn read(mut entry: impl FnMut(&str) -> Option<String>) -> Option<Self> {
        let mut take = |name| entry(name).filter(|text| !text.is_empty());
        Some(Self {
            authorities: take(key::AUTHORITIES)?,
            authority_key: take(key::AUTHORITY_KEY)?,
            chain: take(key::CHAIN)?,
            key: take(key::KEY)?,
        })
    }

    /// What the Secret is to hold.
    pub fn entries(&self) -> BTreeMap<&'static str, &str> {
        [
            (key::AUTHORITIES, self.authorities.as_str()),
            (key::AUTHORITY_KEY, &self.authority_key),
            (key::CHAIN, &self.chain),
            (key::KEY, &self.key),
        ]
        .into()
    }

    /// What is due. What cannot be read is due at once.
    pub fn due(&self, terms: &Terms, now: SystemTime) -> Due {
        let (Ok(authority), Ok(served)) =
            (Facts::first(&self.authorities), Facts::first(&self.chain))
        else {
            return Due::Everything;
        };
        if KeyPair::from_pem(&self.authority_key).is_err() || KeyPair::from_pem(&self.key).is_err()
        {
            return Due::Everything;
        }
        if authority.is_due(terms.authority, now) {
            return Due::Authority;
        }
        let named = terms.names.iter().all(|name| served.names.contains(name));
        if !named || served.is_due(terms.certificate, now) {
            return Due::Certificate;
        }
        Due::Nothing
    }

    /// Makes what is due. `Nothing` gives the same again.
    pub fn renewed(&self, due: Due, terms: &Terms, now: SystemTime) -> Result<Self, rcgen::Error> {
        match due {
            Due::Nothing => Ok(self.clone()),
            Due::Everything => Self::made(terms, now),
            Due::Authority => {
                let (authority, authority_key) = authority(terms.authority, now)?;
                let authorities = bundle(&authority, &self.authorities, now);
                Ok(Self { authorities, authority_key, ..self.clone() })
            }
            Due::Certificate => {
                let (chain, key) = signed(&self.authorities, &self.authority_key, terms, now)?;
                Ok(Self { chain, key, ..self.clone() })
            }
        }
    }

    /// Makes everything.
    pub fn made(terms: &Terms, now: SystemTime) -> Result<Self, rcgen::Error> {
        let (authorities, authority_key) = authority(terms.authority, now)?;
        let (chain, key) = signed(&authorities, &authority_key, terms, now)?;
        Ok(Self { authorities, authority_key, chain, key })
    }
}

/// What a certificate says about itself.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Names and addresses that it is for.
    pub names: Vec<String>,
    /// When it ends, in seconds since 1970.
    pub expiry: i64,
}

impl Facts {
    /// Of the first certificate in a PEM.
    pub fn first(pem: &str) -> Result<Self, Unreadable> {
        let der =
            CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_no_pem| Unreadable::Pem)?;
        Self::of(&der)
    }

    /// Of a certificate.
    pub fn of(der: &[u8]) -> Result<Self, Unreadable> {
        let (_, certificate) = parse_x509_certificate(der).map_err(|_no_x509| Unreadable::X509)?;
        let expiry = certificate.validity().not_after.timestamp();
        let alternatives = certificate.subject_alternative_name().ok().flatten();
        let names =
            alternatives.map(|extension| extension.value.general_names.iter().filter_map(name));
        Ok(Self { names: names.into_iter().flatten().collect(), expiry })
    }

    /// Whether a third of its life, or less, is left.
    fn is_due(&self, life: Duration, now: SystemTime) -> bool {
        self.left(now) <= life / 3
    }

    fn left(&self, now: SystemTime) -> Duration {
        let expiry = Duration::from_secs(u64::try_from(self.expiry).unwrap_or(0));
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        expiry.saturating_sub(now)
    }
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(*bytes)
                .ok()
                .map(|bytes| std::net::Ipv4Addr::from(bytes).to_string()),
            _ => <[u8; 16]>::try_from(*bytes)
                .ok()
                .map(|bytes| std::net::Ipv6Addr::from(bytes).to_string()),
        },
        _ => None,
    }
}

/// A new authority and its key, PEM.
fn authority(life: Duration, now: SystemTime) -> Result<(String, String), rcgen::Error> {
    let mut parameters = parameters(Vec::new(), life, now)?;
    // Authorities that follow one another must differ in name, or a caller takes one for the other.
    let made = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
    parameters.distinguished_name.push(DnType::CommonName, format!("tidegate {made}"));
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    Ok((parameters.self_signed(&key)?.pem(), key.serialize_pem()))
}

/// A new serving certificate of the newest authority, and its key, PEM.
fn signed(
    authorities: &str,
    authority_key: &str,
    terms: &Terms,
    now: SystemTime,
) -> Result<(String, String), rcgen::Error> {
    let newest = CertificateDer::from_pem_slice(authorities.as_bytes())
        .map_err(|_no_pem| rcgen::Error::CouldNotParseCertificate)?;
    let issuer = Issuer::from_ca_cert_der(&newest, KeyPair::from_pem(authority_key)?)?;
    let mut parameters = parameters(terms.names.clone(), terms.certificate, now)?;
    parameters.distinguished_name.push(DnType::CommonName, "tidegate");
    parameters.use_authority_key_identifier_extension = true;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    Ok((parameters.signed_by(&key, &issuer)?.pem(), key.serialize_pem()))
}

fn parameters(
    names: Vec<String>,
    life: Duration,
    now: SystemTime,
) -> Result<CertificateParams, rcgen::Error> {
    let mut parameters = CertificateParams::new(names)?;
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.not_before = (now - BACKDATED).into();
    parameters.not_after = (now + life).into();
    Ok(parameters)
}

/// The new authority before those that it replaces, without the expired.
fn bundle(newest: &str, others: &str, now: SystemTime) -> String {
    let mut bundle = newest.to_owned();
    let alive = blocks(others)
        .filter(|pem| Facts::first(pem).is_ok_and(|facts| !facts.left(now).is_zero()));
    for pem in alive.take(AUTHORITIES_MAX - 1) {
        bundle.push_str(pem);
    }
    bundle
}

/// The certificates of a PEM, each as text.
fn blocks(pem: &str) -> impl Iterator<Item = &str> {
    const END: &str = "-----END CERTIFICATE-----\n";
    pem.split_inclusive(END).filter(|block| block.ends_with(END))
}

#[cfg(test)]
mod tests;
