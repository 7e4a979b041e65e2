//! Snapshots of `ostler top`.

use std::time::Duration;

use expect_test::{Expect, expect};
use ostler_server::wire::{ClientRow, ClientTier, QueueRow, QueueView};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use crate::cli::commands::top::draw::{draw, lines};
use crate::cli::commands::top::model::{Key, Poll, QueueModel};
use crate::cli::commands::top::shares::tests::client;
use crate::cli::commands::top::table::Column;

fn model(slots: u32, looks: impl IntoIterator<Item = Vec<ClientRow>>) -> QueueModel {
    let mut model = QueueModel::new("/var/lib/ostler".to_owned(), Column::Minute);
    for (at, clients) in looks.into_iter().enumerate() {
        let running = clients.iter().map(|line| line.running).sum();
        let queued = clients.iter().map(|line| line.queued).sum();
        let queue = QueueRow { slots, running, queued, rate_waits: 0, marketplace_owed: 40 };
        let view = QueueView { queue, clients };
        model.update(Poll::Queue(view), Duration::from_secs(at as u64));
    }
    model
}

fn five() -> QueueModel {
    let mut clients = vec![
        client("acme", 100, 2, 1_000),
        client("umbrella", 300, 4, 2_000),
        ClientRow { queued: 7, left: Some(-20), parked: true, ..client("parked-one", 10, 0, 500) },
        client("idle", 100, 0, 90),
        ClientRow { tier: ClientTier::Contracted, left: Some(99_000), ..client("日本語", 500, 1, 4_000) },
    ];
    let before = clients.clone();
    for (line, (charged, lag)) in clients.iter_mut().zip([(300, 12), (700, -12), (0, 0), (0, 0), (100, 0)]) {
        (line.charged, line.spent) = (line.charged + charged, line.spent + charged);
        (line.lag, line.queued) = (lag, line.queued + u64::from(line.running) * 3);
    }
    model(8, [before, clients])
}

fn check(model: &mut QueueModel, columns: u16, rows: u16, expected: &Expect) {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(model, frame.area(), frame.buffer_mut())).unwrap();
    expected.assert_eq(&terminal.backend().to_string());
}

#[test]
fn clients_stand_by_what_they_got() {
    check(
        &mut five(),
        120,
        12,
        &expect![[r#"
            "ostler top  /var/lib/ostler                                                                                             "
            "7 of 8 slots █████████████████████████████████████████████████████████████████████████████████████████████░░░░░░░░░░░░░░"
            "28 queued, marketplace 40 credits behind                                                                                "
            "                                                                                                                        "
            "CLIENT      TIER          WEIGHT   SHARE     GOT  GOT/MIN▼   GOT/ALL   RUN   QUEUED   LAG   SPENT   LEFT                "
            "日本語      contracted       500  100.0%  100.0%    100.0%    100.0%     1        3     0    4100  99000                " Hidden by multi-width symbols: [(1, " "), (3, " "), (5, " ")]
            "umbrella    marketplace      300   75.0%   70.0%     70.0%     58.8%     4       12   -12    2700      -                "
            "acme        marketplace      100   25.0%   30.0%     30.0%     28.3%     2        6    12    1300      -                "
            "parked-one  marketplace       10       -    0.0%      0.0%     10.9%     0        7     0     500    -20  parked        "
            "idle        marketplace      100       -    0.0%      0.0%      2.0%     0        0     0      90      -                "
            "                                                                                                                        "
            "q quits  s sorts                                                                                                        "
        "#]],
    );
}

#[test]
fn a_terminal_of_eighty_columns_shows_what_matters() {
    check(
        &mut five(),
        80,
        12,
        &expect![[r#"
            "ostler top  /var/lib/ostler                                                     "
            "7 of 8 slots ██████████████████████████████████████████████████████████░░░░░░░░░"
            "28 queued, marketplace 40 credits behind                                        "
            "                                                                                "
            "CLIENT       SHARE     GOT  GOT/MIN▼   RUN   QUEUED   LAG   SPENT   LEFT        "
            "日本語      100.0%  100.0%    100.0%     1        3     0    4100  99000        " Hidden by multi-width symbols: [(1, " "), (3, " "), (5, " ")]
            "umbrella     75.0%   70.0%     70.0%     4       12   -12    2700      -        "
            "acme         25.0%   30.0%     30.0%     2        6    12    1300      -        "
            "parked-one       -    0.0%      0.0%     0        7     0     500    -20  parked"
            "idle             -    0.0%      0.0%     0        0     0      90      -        "
            "                                                                                "
            "q quits  s sorts                                                                "
        "#]],
    );
}

#[test]
fn a_narrow_terminal_keeps_names_and_shares() {
    check(
        &mut five(),
        32,
        7,
        &expect![[r#"
            "7 of 8 slots ████████████████░░░"
            "28 queued, marketplace 40 credi…"
            "CLIENT       SHARE  GOT/MIN▼    "
            "日本語      100.0%    100.0%    " Hidden by multi-width symbols: [(1, " "), (3, " "), (5, " ")]
            "umbrella     75.0%     70.0%    "
            "acme         25.0%     30.0%    "
            "parked-one       -      0.0%    "
        "#]],
    );
}

#[test]
fn no_clients_are_said_to_be_none() {
    check(
        &mut model(4, [Vec::new()]),
        60,
        8,
        &expect![[r#"
            "ostler top  /var/lib/ostler                                 "
            "0 of 4 slots ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░"
            "0 queued, marketplace 40 credits behind                     "
            "                                                            "
            "no client yet                                               "
            "                                                            "
            "                                                            "
            "q quits  s sorts                                            "
        "#]],
    );
}

#[test]
fn that_nobody_holds_the_data_folder_is_said() {
    let mut model = five();
    model.update(Poll::NoProcess, Duration::from_secs(3));
    check(
        &mut model,
        60,
        8,
        &expect![[r#"
            "ostler top  /var/lib/ostler                                 "
            "0 of 8 slots ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░"
            "no queue: no process holds the data folder now              "
            "                                                            "
            "                                                            "
            "                                                            "
            "                                                            "
            "q quits  s sorts                                            "
        "#]],
    );
}

#[test]
fn two_hundred_clients_are_scrolled_and_sorted() {
    let clients = || (0..200).map(|at| client(&format!("client-{at:03}"), 1 + at, 1, u64::from(at) * 10));
    let mut model = model(300, [clients().collect()]);
    check(
        &mut model,
        60,
        10,
        &expect![[r#"
            "ostler top  /var/lib/ostler                                 "
            "200 of 300 slots ████████████████████████████░░░░░░░░░░░░░░░"
            "0 queued, marketplace 40 credits behind                     "
            "                                                            "
            "CLIENT       SHARE  GOT/MIN▼   RUN   QUEUED   LAG   LEFT    "
            "client-199    1.0%         -     1        0     0      -    "
            "client-198    1.0%         -     1        0     0      -    "
            "client-197    1.0%         -     1        0     0      -    "
            "client-196    1.0%         -     1        0     0      -    "
            "q quits  s sorts  ↑↓ PgUp PgDn scroll             1-4 of 200"
        "#]],
    );
    for key in [Key::Pages(1), Key::Rows(1)] {
        assert!(model.press(key));
    }
    check(
        &mut model,
        60,
        10,
        &expect![[r#"
            "ostler top  /var/lib/ostler                                 "
            "200 of 300 slots ████████████████████████████░░░░░░░░░░░░░░░"
            "0 queued, marketplace 40 credits behind                     "
            "                                                            "
            "CLIENT       SHARE  GOT/MIN▼   RUN   QUEUED   LAG   LEFT    "
            "client-194    1.0%         -     1        0     0      -    "
            "client-193    1.0%         -     1        0     0      -    "
            "client-192    1.0%         -     1        0     0      -    "
            "client-191    1.0%         -     1        0     0      -    "
            "q quits  s sorts  ↑↓ PgUp PgDn scroll             6-9 of 200"
        "#]],
    );
    for key in [Key::Sort, Key::Sort, Key::Sort, Key::Sort, Key::Sort, Key::Sort, Key::Last] {
        assert!(model.press(key));
    }
    check(
        &mut model,
        60,
        10,
        &expect![[r#"
            "ostler top  /var/lib/ostler                                 "
            "200 of 300 slots ████████████████████████████░░░░░░░░░░░░░░░"
            "0 queued, marketplace 40 credits behind                     "
            "                                                            "
            "CLIENT      SHARE▼   GOT/MIN   RUN   QUEUED   LAG   LEFT    "
            "client-003    0.0%         -     1        0     0      -    "
            "client-002    0.0%         -     1        0     0      -    "
            "client-001    0.0%         -     1        0     0      -    "
            "client-000    0.0%         -     1        0     0      -    "
            "q quits  s sorts  ↑↓ PgUp PgDn scroll         197-200 of 200"
        "#]],
    );
    model.press(Key::First);
    model.press(Key::Rows(-1));
    assert_eq!(model.top, 0);
    assert!(!model.press(Key::Quit));
}

#[test]
fn nothing_is_drawn_outside_of_a_terminal_of_any_size() {
    for columns in [0, 1, 2, 9, 20, 33, 300] {
        for rows in [0, 1, 2, 3, 4, 5, 7, 8, 9, 60] {
            let drawn = lines(&mut five(), (columns, rows), true);
            assert_eq!(drawn.len(), rows, "{columns} x {rows}");
        }
    }
}

#[test]
fn colours_are_for_who_wants_them() {
    let coloured = lines(&mut five(), (80, 12), true).concat();
    let plain = lines(&mut five(), (80, 12), false).concat();
    // Codes for yellow, dim and bold.
    for code in ["\u{1b}[38;5;3", "\u{1b}[2m", "\u{1b}[1m"] {
        assert!(coloured.contains(code) && !plain.contains(code), "{code:?}: {coloured:?}");
    }
}
