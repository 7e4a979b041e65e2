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
    "https://a.cdn.example.com.evil.net/",
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
        "https://api.example.com/?to=https://other.example.com/",
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

/// Knows `public.example.com`, `mixed.example.com` and `inner.example.com`; another name has no address.
struct Table;

impl Lookup for Table {
    fn addresses(&mut self, host: &str) -> Addresses {
        let texts: &[&str] = match host {
            "public.example.com" => &["93.184.216.34", "8.8.8.8"],
            "mixed.example.com" => &["93.184.216.34", "10.0.0.1"],
            "inner.example.com" => &["10.0.0.1"],
            "meta.example.com" => &["169.254.169.254"],
            _ => &[],
        };
        Addresses::Found(texts.iter().map(|text| text.parse().unwrap()).collect())
    }
}

fn rule(hosts: &[&str], schemes: &[&str], ports: Option<Vec<u16>>, allow_private: bool) -> Egress {
    let mut egress = Egress::default();
    egress.push(Destinations {
        hosts: hosts.iter().map(|host| HostPattern::new(host)).collect(),
        schemes: schemes.iter().map(|&scheme| scheme.to_owned()).collect(),
        ports,
        allow_private,
    });
    egress
}

#[test]
fn a_call_is_pinned_to_an_address_that_a_rule_opens() {
    let (closed, open) = (rule(&["*"], &["http"], None, false), rule(&["*"], &["http"], None, true));
    for (url, by_closed, by_open) in [
        ("http://public.example.com/", Ok(("93.184.216.34", true)), Ok(("93.184.216.34", true))),
        ("http://mixed.example.com/", Err("NotPublic"), Ok(("93.184.216.34", true))),
        ("http://inner.example.com/", Err("NotPublic"), Ok(("10.0.0.1", true))),
        ("http://meta.example.com/", Err("NotPublic"), Err("NotPublic")),
        ("http://none.example.com/", Err("NotFound"), Err("NotFound")),
        ("http://8.8.8.8/", Ok(("8.8.8.8", false)), Ok(("8.8.8.8", false))),
        ("http://127.0.0.1/", Err("NotPublic"), Ok(("127.0.0.1", false))),
        ("https://8.8.8.8/", Err("NotListed"), Err("NotListed")),
    ] {
        for (egress, expected) in [(&closed, by_closed), (&open, by_open)] {
            let pinned = egress.pin(url, &mut Table).map(|pinned| {
                let Pinned { address, looked_up } = pinned.unwrap();
                (address.to_string(), looked_up)
            });
            let name = |fault: &EgressFault| format!("{fault:?}").split(' ').next().unwrap().to_owned();
            let found = pinned.as_ref().map(|(address, looked_up)| (address.as_str(), *looked_up));
            assert_eq!(found.map_err(name), expected.map_err(str::to_owned), "{url}");
        }
    }
    assert_eq!(closed.pin("http://inner.example.com/", &mut AtConnection), Ok(None));
}

/// A rule for private networks opens the networks to URLs that fit the rule, whatever narrower rules say.
#[test]
fn a_private_address_needs_one_rule_that_fits_and_opens_it() {
    let with = |host: &str, allow_private| rule(&[host], &["http"], None, allow_private).rules;
    for (rules, opened) in [
        ([with("*", false), with("other.example.com", true)], false),
        ([with("*", false), with("inner.example.com", true)], true),
        ([with("inner.example.com", true), with("*", false)], true),
    ] {
        let egress = Egress { rules: rules.concat() };
        let url = "http://inner.example.com/";
        assert_eq!(egress.pin(url, &mut Table).is_ok(), opened, "{egress:?}");
        let destination = egress.judge(url).unwrap();
        assert_eq!(destination.may_connect("10.0.0.1".parse().unwrap()), opened, "{egress:?}");
    }
}

#[test]
fn a_rule_names_schemes_ports_and_hosts() {
    let usual = rule(&["a.example.com", "*.b.example.com"], &["https", "http"], None, false);
    let ports = rule(&["a.example.com"], &["https", "wss"], Some(vec![8443, 9443]), false);
    let odd = rule(&["*example.com"], &["https"], None, false);
    let anywhere = rule(&["*"], &["https"], None, false);
    let mut two = rule(&["a.example.com"], &["h2-a+b.c"], Some(vec![1]), false);
    two.rules.extend(usual.rules.clone());
    for (egress, url, expected) in [
        (&usual, "https://a.example.com/", None),
        (&usual, "http://a.example.com/", None),
        (&usual, "https://x.b.example.com/", None),
        (&usual, "https://b.example.com/", Some("b.example.com:443 is not on the egress list")),
        (&usual, "https://a.example.com:8443/", Some("a.example.com:8443 is not on the egress list")),
        (&usual, "http://a.example.com:443/", Some("port 443 is the port of https, found scheme http")),
        (&usual, "https://a.example.com:80/", Some("port 80 is the port of http, found scheme https")),
        (&usual, "wss://a.example.com:443/", Some("expected an http or https URL")),
        (&ports, "https://a.example.com:8443/", None),
        (&ports, "wss://a.example.com:9443/", None),
        (&ports, "https://a.example.com/", Some("a.example.com:443 is not on the egress list")),
        (&ports, "http://a.example.com:8443/", Some("a.example.com:8443 is not on the egress list")),
        (&ports, "wss://a.example.com:1/", Some("a.example.com:1 is not on the egress list")),
        (&ports, "wss://a.example.com/", Some("expected an http or https URL")),
        (&ports, "ws://a.example.com:8443/", Some("expected an http or https URL")),
        (&odd, "https://xexample.com/", Some("xexample.com:443 is not on the egress list")),
        (&anywhere, "https://any.example.com/", None),
        (&two, "h2-a+b.c://a.example.com:1/", None),
        (&two, "h2-a+b.c://a.example.com:2/", Some("a.example.com:2 is not on the egress list")),
    ] {
        let fault = egress.judge(url).err().map(|fault| fault.to_string());
        assert_eq!(fault.as_deref(), expected, "{url}");
    }
    assert!(Egress::default().is_empty() && !usual.is_empty());
}

#[test]
fn a_text_that_parsers_read_differently_is_called_ambiguous() {
    for (url, expected) in [
        ("https://a.example.com\\", "expected printable ASCII without spaces and backslashes"),
        ("https://é.example.com", "expected printable ASCII without spaces and backslashes"),
        ("https://a.example.com/x y", "expected printable ASCII without spaces and backslashes"),
        ("https://a.example.com/x\r\ny", "expected printable ASCII without spaces and backslashes"),
        ("a.example.com", "expected an absolute URL"),
        ("://a.example.com", "expected an absolute URL"),
        ("1https://a.example.com", "expected an absolute URL"),
        ("ht_tps://a.example.com", "expected an absolute URL"),
        ("https://u@a.example.com", "expected no user before the host"),
        ("https://[::1/", "expected a closing bracket"),
        ("https://[::1]x/", "expected nothing between the host and the port"),
        ("https://a.example.com:0/", "expected a port of 1 to 65535 without leading zeros"),
        ("https://a.example.com:65536/", "expected a port of 1 to 65535 without leading zeros"),
        ("https://[::g]/", "expected an IPv6 address in brackets"),
        ("https://a..example.com/", "expected a host of letters, digits, `-`, `_` and dots"),
        ("https://1.2.3/", "expected an IPv4 address of four decimal numbers"),
        ("https://0x1/", "expected an IPv4 address of four decimal numbers"),
        ("https://0xaF/", "expected an IPv4 address of four decimal numbers"),
        ("https://1.2.3.4./", "expected an IPv4 address of four decimal numbers"),
    ] {
        assert_eq!(egress().judge(url), Err(EgressFault::Ambiguous(expected)), "{url}");
    }
    for (url, host, port) in [
        ("https://[2606:4700::1]:444/", "[2606:4700::1]", 444),
        ("HTTPS://A-b_c.CDN.example.com?q", "a-b_c.cdn.example.com", 443),
        ("https://1.2.3.4:444#f", "1.2.3.4", 444),
        ("https://0x1g:444", "0x1g", 444),
        ("https://a.example.com:444", "a.example.com", 444),
    ] {
        let found = egress().judge(url).map(|it| (it.host, it.port));
        assert_eq!(found, Ok((host.to_owned(), port)), "{url}");
    }
}
