use super::*;

fn egress() -> Egress {
    Egress::new([
        "api.example.com:443",
        "*.cdn.example.com:443",
        "plain.example.com:80",
        "odd.example.com:8443",
        "127.0.0.1:8080",
        "[::1]:8080",
        "localhost:8080",
        "169.254.169.254:80",
        "*:444",
    ])
    .unwrap()
}

const REFUSED_URLS: &[&str] = &[
    "",
    "api.example.com",
    "//api.example.com/",
    "/path",
    "ftp://api.example.com/",
    "file:///etc/passwd",
    "https:///x",
    "https://",
    "https:/api.example.com",
    "https://user@api.example.com/",
    "https://api.example.com@evil.net/",
    "https://api.example.com:80/",
    "https://api.example.com:0443/",
    "https://api.example.com:/",
    "https://api.example.com:65536/",
    "https://api.example.com:99999999999/",
    "https://api.example.com:+443/",
    "https://api.example.com.evil.net/",
    "https://evilapi.example.com/",
    "https://cdn.example.com/",
    "https://.cdn.example.com/",
    "https://a..cdn.example.com/",
    "https://xcdn.example.com/",
    "http://api.example.com/",
    "http://api.example.com:443/",
    "http://a.cdn.example.com:443/",
    "https://plain.example.com:80/",
    "https://api.example.com./",
    "https://api.example.com\\@evil.net/",
    "https://api.example.com\t/",
    " https://api.example.com/",
    "https://api.example.com\n/",
    "https://аpi.example.com/",
    "https://api%2eexample.com/",
    "http://127.0.0.1:8081/",
    "http://2130706433:8080/",
    "http://0x7f000001:8080/",
    "http://127.1:8080/",
    "http://0177.0.0.1:8080/",
    "http://127.0.0.01:8080/",
    "http://127.0.0.1.:8080/",
    "http://0x:8080/",
    "http://[::1:8080/",
    "http://[::1]x:8080/",
    "http://[0:0:0:0:0:0:0:1]:8080/",
    "http://[::ffff:127.0.0.1]:8080/",
    "http://[fe80::1%25eth0]:8080/",
    "https://127.0.0.1:444/",
    "https://10.0.0.1:444/",
    "https://[::1]:444/",
    "https://[::ffff:8.8.8.8]:444/",
    "http://169.254.169.254/",
    "https://[fe80::1]:444/",
    "https://0.0.0.0:444/",
];

#[test]
fn only_what_is_listed_may_be_reached() {
    for url in [
        "https://api.example.com",
        "https://API.example.com/x?y#z",
        "HTTPS://api.example.com:443/",
        "https://a.cdn.example.com/",
        "https://a.b.cdn.example.com/",
        "http://plain.example.com/",
        "https://odd.example.com:8443/",
        "http://127.0.0.1:8080/x",
        "http://[::1]:8080/",
        "http://localhost:8080",
        "https://anything.at.all:444/",
        "https://8.8.8.8:444/",
        "https://[2606:4700::1]:444/",
    ] {
        assert!(egress().judge(url).is_ok(), "{url}: {:?}", egress().judge(url));
    }
    for url in REFUSED_URLS {
        assert!(egress().judge(url).is_err(), "{url}: {:?}", egress().judge(url));
    }
}

#[test]
fn nothing_is_listed_by_default() {
    let fault = Egress::default().judge("https://api.example.com/").unwrap_err();
    assert_eq!(fault.to_string(), "api.example.com:443 is not on the egress list");
}

#[test]
fn an_entry_is_a_host_and_a_port() {
    for entry in [
        "",
        "example.com",
        "example.com:",
        ":443",
        "example.com:0",
        "example.com:0443",
        "Example.com:443",
        "https://example.com:443",
        "*example.com:443",
        "*.*.com:443",
        "a.*.com:443",
        "*.:443",
        "*.10.0.0.1:80",
        "[::1:80",
        "example.com:443/",
        "010.0.0.1:80",
    ] {
        assert!(Egress::new([entry]).is_err(), "{entry}");
    }
}

#[test]
fn a_name_may_lead_to_a_private_address_only_if_it_is_listed_literally() {
    let address = |text: &str| text.parse::<IpAddr>().unwrap();
    let listed = egress().judge("http://localhost:8080/").unwrap();
    let by_pattern = egress().judge("https://a.cdn.example.com/").unwrap();
    for (text, by_listed, by_wildcard) in [
        ("127.0.0.1", true, false),
        ("10.1.2.3", true, false),
        ("::1", true, false),
        ("fd00::1", true, false),
        ("169.254.169.254", false, false),
        ("0.0.0.0", false, false),
        ("::ffff:127.0.0.1", false, false),
        ("fe80::1", false, false),
        ("93.184.216.34", true, true),
        ("2606:4700::1111", true, true),
    ] {
        assert_eq!(listed.may_connect(address(text)), by_listed, "{text}");
        assert_eq!(by_pattern.may_connect(address(text)), by_wildcard, "{text}");
    }
}

#[test]
fn the_edges_of_the_special_ranges() {
    for (text, public) in [
        ("0.255.255.255", false),
        ("1.0.0.0", true),
        ("9.255.255.255", true),
        ("11.0.0.0", true),
        ("100.63.255.255", true),
        ("100.64.0.0", false),
        ("100.127.255.255", false),
        ("100.128.0.0", true),
        ("169.253.255.255", true),
        ("169.255.0.0", true),
        ("172.15.255.255", true),
        ("172.31.255.255", false),
        ("172.32.0.0", true),
        ("192.0.0.255", false),
        ("192.0.1.0", true),
        ("192.0.2.1", false),
        ("192.88.99.1", false),
        ("192.167.255.255", true),
        ("198.17.255.255", true),
        ("198.19.255.255", false),
        ("198.20.0.0", true),
        ("198.51.100.1", false),
        ("203.0.113.9", false),
        ("223.255.255.255", true),
        ("224.0.0.0", false),
        ("255.255.255.255", false),
        ("1fff::1", false),
        ("2000::1", true),
        ("2001:1ff::1", false),
        ("2001:200::1", true),
        ("2001:db8::1", false),
        ("2002::1", false),
        ("2003::1", true),
        ("3fff:ffff::1", true),
        ("4000::1", false),
        ("::", false),
        ("::1", false),
        ("ff02::1", false),
    ] {
        assert_eq!(is_public(text.parse().unwrap()), public, "{text}");
    }
}
