use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

fn page(html: &str, bytes_max: usize) -> Page {
    reduce(html, &Url::parse("http://a.example/dir/page").unwrap(), bytes_max)
}

fn check(html: &str, expected: Expect) {
    expected.assert_eq(&page(html, 10_000).text);
}

#[test]
fn headings_paragraphs_and_lists_keep_their_form() {
    check(
        "<html><head><title>T</title></head><body><h1>Head\n line</h1>Some <b>bold</b>\n text<p>one<p>two<br>three\
         <ul><li>a<li><p>b</p><ol><li>c</li><li>d</ol></li><li></li></ul>end</body></html>",
        expect![[r#"
            # Head line

            Some bold text

            one

            two
            three

            - a
            - b

              1. c
              2. d

            end"#]],
    );
    check(
        "<dl><dt>a<dd>b</dl><blockquote>c</blockquote><hr>d",
        expect![[r#"
        a
        b

        c

        d"#]],
    );
    check(
        "<p>a<pre>\n  x\n    y\n</pre>b <pre>\r\nz\r\n</pre>",
        expect![[r#"
        a

          x
            y

        b

        z"#]],
    );
    check(
        "<h2></h2>a<h3> <b></b></h3>b",
        expect![[r#"
        a

        b"#]],
    );
    check("<ul><ul><ul><ul><ul><ul><ul><ul><ul><ul><li>deep", expect!["              - deep"]);
    check("</ul></li></p></h1>a</div>", expect!["a"]);
}

#[test]
fn tables_are_rows_of_cells() {
    check(
        "<table><caption>c</caption><tr><th>a<th>b</tr><tr><td>1</td><td></td><td>3</td></tr></table>d",
        expect![[r#"
            c
            a | b
            1 |  | 3

            d"#]],
    );
}

#[test]
fn links_carry_their_addresses() {
    check(
        "See <a href='/x?a=1&amp;b=2'>the <i>page</i></a>, <a href=other>another</a>.",
        expect!["See the page (http://a.example/x?a=1&b=2), another (http://a.example/dir/other)."],
    );
    check(
        "<a href='#top'>top</a> <a href=mailto:a@b.example>mail</a> <a name=x>x</a> <a href='javascript:f()'>y</a>",
        expect!["top mail x y"],
    );
    check(
        "<a href=http://b.example/>http://b.example/</a> <a href=/x><img></a> <a href=http://[>z</a>",
        expect!["http://b.example/ z"],
    );
    check(
        "<base href=http://c.example/d/><ul><li><a href=e>e</a><li><a href=f>f<a href=g>g",
        expect![[r#"
            - e (http://c.example/d/e)
            - f (http://c.example/d/f)g (http://c.example/d/g)"#]],
    );
    let links = page("<p>x <a href=b>a\n b</a> <a href=b>c</a><ul><li><a href=d>&amp;lt;</a>", 1_000).links;
    expect![[r#"[Link { text: "a b", url: "http://a.example/dir/b" }, Link { text: "&lt;", url: "http://a.example/dir/d" }]"#]].assert_eq(&format!("{links:?}"));
}

#[test]
fn what_surrounds_the_content_is_dropped() {
    check(
        "<nav>n<nav>m</nav>n</nav><div role=navigation><div>r</div>r</div><main>text<aside>a</aside>\
         <button>b</button><span hidden>h</span><div aria-hidden=true>i</div><svg><title>s</title></svg></main><footer>f",
        expect!["text"],
    );
    check("<nav>never closed<main>text</main>", expect!["text"]);
    check("<body><nav>never closed</body>text", expect!["text"]);
    check("<nav>only <a href=/n>chrome</a></nav>", expect!["only chrome (http://a.example/n)"]);
    check(
        "<script>a</script><style>b</style><template>c</template><!-- d --><noscript>e</noscript>f",
        expect!["ef"],
    );
}

#[test]
fn invisible_characters_are_dropped_and_references_read() {
    check(
        "a\u{200b}b\u{202e}c\u{e0041}d\u{1b}[0m &shy;e&nbsp;&nbsp;f &#x200b;&amp;amp;",
        expect!["abcd[0m e f &amp;"],
    );
}

#[test]
fn a_title_is_one_line_up_to_its_limit() {
    assert_eq!(
        page("<title> a\n &amp; b </title><title>c</title><svg><title>d</title></svg>", 9).title,
        "a & b"
    );
    let long = page(&format!("<title>{}</title>", "ü".repeat(PAGE_TITLE_BYTES_MAX)), 9).title;
    assert_eq!(long, "ü".repeat(PAGE_TITLE_BYTES_MAX / 2));
}

#[test]
fn a_text_ends_at_its_limit() {
    let whole = page("<p>aü<p>b", 6);
    assert_eq!((whole.text.as_str(), whole.truncated), ("aü\n\nb", false));
    for (bytes, text) in [(5, "aü"), (3, "aü"), (2, "a"), (1, "a"), (0, "")] {
        let cut = page("<p>aü<p>b", bytes);
        assert_eq!((cut.text.as_str(), cut.truncated), (text, true), "{bytes}");
    }
    let cut = page("<a href=/b>a</a>", 8);
    assert_eq!((cut.text.as_str(), cut.truncated), ("a (http:", true));
}

#[test]
fn links_are_listed_up_to_the_limit() {
    let html: String = (0..=PAGE_LINKS_MAX).map(|at| format!("<a href=/{at}>x</a> ")).collect();
    let page = page(&html, 1 << 20);
    assert_eq!(page.links.len(), PAGE_LINKS_MAX);
    assert!(page.text.ends_with("/200)") && !page.truncated);
    let long = format!("<a href=/{}>x</a>", "y".repeat(URL_BYTES_MAX));
    check(&long, expect!["x"]);
}

/// Texts on which a careless reader takes quadratic time: each takes minutes then.
#[test]
fn no_page_takes_more_than_linear_time() {
    const BYTES: usize = 1 << 18;
    for part in [
        "<",
        "</",
        "<!",
        "<!--",
        "<?",
        "<a ",
        "<a b='",
        "<a href=x>",
        "<a href=x>y",
        "<p a=\"",
        "<script>",
        "<script></",
        "<title>",
        "<title></",
        "<nav>",
        "<nav></nav>",
        "<ul>",
        "<ol><li>x",
        "<li>",
        "<td>",
        "<pre>\n",
        "&",
        "&amp",
        "&#",
        "<div role=x hidden=",
        "x ",
        "<h1>",
        "</a>",
        "<base href=x>",
        "<table><tr>",
    ] {
        let html = part.repeat(BYTES / part.len());
        for bytes_max in [100, 1 << 18] {
            assert!(page(&html, bytes_max).text.len() <= bytes_max, "{part}");
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_a_page_within_its_limit(
        bytes in proptest::collection::vec(any::<u8>(), 0..2_000), bytes_max in 0..500_usize,
    ) {
        let page = page(&String::from_utf8_lossy(&bytes), bytes_max);
        prop_assert!(page.text.len() <= bytes_max && page.links.len() <= PAGE_LINKS_MAX);
    }

    /// Bytes at random are seldom markup; pieces of markup at random are.
    #[test]
    fn any_markup_is_a_page_within_its_limit(
        parts in proptest::collection::vec(proptest::sample::select(PARTS.to_vec()), 0..200), bytes_max in 0..500_usize,
    ) {
        let page = page(&parts.concat(), bytes_max);
        prop_assert!(page.text.len() <= bytes_max && page.title.len() <= PAGE_TITLE_BYTES_MAX);
        prop_assert!(!page.text.chars().any(|c| c.is_control() && !c.is_whitespace()));
        prop_assert!(page.links.iter().all(|link| link.url.starts_with("http") && !link.text.is_empty()));
    }
}

const PARTS: [&str; 44] = [
    "<",
    ">",
    "/",
    "=",
    "\"",
    "'",
    "&",
    ";",
    "#",
    " ",
    "\n",
    "a",
    "ü",
    "\u{0}",
    "\u{200b}",
    "<a href=",
    "<a href='/x'>",
    "</a>",
    "<p>",
    "</p>",
    "<h1>",
    "</h1>",
    "<ul>",
    "</ul>",
    "<ol>",
    "<li>",
    "</li>",
    "<td>",
    "<tr>",
    "<pre>",
    "</pre>",
    "<nav>",
    "</nav>",
    "<main>",
    "<title>",
    "</title>",
    "<script>",
    "</script>",
    "<!--",
    "-->",
    "&amp;",
    "&#x41;",
    "<base href=//b>",
    "<br/>",
];
