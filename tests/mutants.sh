#!/usr/bin/env bash
# Takes, one after the other, what the promises of docs/durability.md rest on out of a copy of the sources, and looks whether a
# test notices: `just mutants`, or `tests/mutants.sh fsync crc` for some.
#
# A mutation that does not apply any more, or that does not build, is an error: it would show nothing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$PWD/target}" CARGO_INCREMENTAL=0 CARGO_TERM_COLOR=never
# Always the same place, so that what was built for it is built once.
work="$CARGO_TARGET_DIR/mutants" copy="$CARGO_TARGET_DIR/mutants/ostler"
rm -rf "$work"
trap 'rm -rf "$work"' EXIT
# What a mutant does to a test may be that it never ends.
patience=300

mkdir -p "$copy"
git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --preserve=timestamps -t "$copy"

# Runs the tests of a file, or those of them that have a name.
tests() {
    (cd "$copy" && timeout -k 10 "$patience" cargo test --workspace "$@") >"$work/log" 2>&1
}

builds() {
    (cd "$copy" && cargo test --workspace --no-run "$@") >"$work/log" 2>&1
}

wanted=("$@") known=() failed=0

# mutant NAME FILE OLD NEW TEST... : with NEW in the place of OLD, these tests fail; without, they pass.
mutant() {
    local name="$1" file="$2" old="$3" new="$4" text begun=$SECONDS
    shift 4
    known+=("$name")
    if [ "${#wanted[@]}" -gt 0 ] && [[ " ${wanted[*]} " != *" $name "* ]]; then
        return
    fi
    text="$(cat "$copy/$file"; printf x)"
    if [[ "$text" != *"$old"* ]]; then
        printf '%-10s DOES NOT APPLY: %s holds no more: %s\n' "$name" "$file" "$old"
        failed=1
        return
    fi
    if ! tests "$@"; then
        tail -n 40 "$work/log"
        printf '%-10s RED WITHOUT IT: cargo test --workspace %s\n' "$name" "$*"
        failed=1
        return
    fi
    printf '%s' "${text/"$old"/"$new"}" | head -c -1 >"$copy/$file"
    if ! builds "${@:1:2}"; then
        tail -n 40 "$work/log"
        printf '%-10s DOES NOT BUILD: %s\n' "$name" "$file"
        failed=1
    elif tests "$@"; then
        printf '%-10s GREEN: nothing notices that %s lacks: %s\n' "$name" "$file" "$old"
        failed=1
    else
        printf '%-10s red, as it should be  %4d s  %s\n' "$name" $((SECONDS - begun)) \
            "$(grep -m 1 -oE '^test .* \.\.\. FAILED$' "$work/log" | cut -d ' ' -f 2 || echo 'the test was ended')"
    fi
    printf '%s' "$text" | head -c -1 >"$copy/$file"
}

# What is acknowledged is on the disk.
mutant fsync store/src/online/writer.rs \
    'Writer::sync(shared, &*current.file).map_err(WriteError::Unknown)?;' '' \
    --test faults a_power_cut_keeps_what_was_durable_whatever_else_it_keeps
# So is the name of its file.
mutant folder store/src/online/writer.rs \
    'files.disk.sync().map_err(WriteError::Unknown)?;' '' \
    --test faults a_power_cut_keeps_what_was_durable_whatever_else_it_keeps
# A sync that failed is not taken for done.
mutant poison store/src/online/writer.rs \
    'Writer::sync(shared, &*current.file).map_err(WriteError::Unknown)?;' 'let _ = Writer::sync(shared, &*current.file);' \
    --test faults after_a_failed_sync_nothing_is_acknowledged_any_more
# What a failed sync left in memory is written again before it counts.
mutant rewrite store/src/online/tail_repair.rs \
    'let rewrites = from < loaded.end.offset();' 'let rewrites = false;' \
    --test faults what_a_failed_sync_left_in_memory_is_written_again_before_it_counts
# A byte that flipped is not given out.
mutant crc store/src/format/frame.rs \
    'if stored_crc(header) != checksum(lsn, &bytes[4..FRAME_HEADER_BYTES + len]) {' \
    'if false && stored_crc(header) != checksum(lsn, &bytes[4..FRAME_HEADER_BYTES + len]) {' \
    --test faults a_flipped_byte_is_refused_or_dropped_but_never_given_out
# Nor one of a result.
mutant digest store/src/data_folder/artifact_files.rs \
    'if self::digest(&artifact) != digest {' 'if false {' \
    --test data_folder a_damaged_artifact_is_never_given_out_and_can_be_stored_again
# Who was overtaken is not read as if it had not been.
mutant epoch store/src/index/tail_index.rs \
    'if body.epoch < self.epoch {' 'if false {' \
    --test faults a_frame_of_an_earlier_epoch_is_refused_even_if_its_records_would_follow
# And writes nothing more.
mutant fence store/src/online/shared.rs \
    'self.lock.as_ref().map_or(Ok(()), HeldLock::check)' 'Ok(())' \
    --test fence
# One process holds a folder.
mutant lock store/src/disk/lock.rs \
    'match file.try_lock() {' 'match Ok::<(), TryLockError>(()) {' \
    --test data_folder a_second_opener_is_told_who_holds_the_folder
# What acts on the world is begun when its intent is durable.
mutant intent actors/src/run/launch.rs \
    'if let (true, Some(position)) = (acts, position)' 'if let (false, Some(position)) = (acts, position)' \
    --test intents
# So is a step of an agent that acts.
mutant step actors/src/attempts/attempt_journal/log.rs \
    'self.append_durably(Event::StepIntent(Box::new(intent))).await?;' 'drop(intent);' \
    --test programs a_step_that_acts_is_written_down_before_and_its_failure_after_so_it_is_no_doubt
# A finished one is not done again.
mutant memo kernel/src/step_history.rs \
    '(StepState::Done(output), _) => StepLookup::Done(output.clone()),' '(StepState::Done(_), _) => again(),' \
    --test durable_steps
# A run goes on only with all that its attempts noted.
mutant notes store/src/maintenance/affected_runs.rs \
    'let from = survey.first_lost_after(last)?;' 'let from = survey.first_lost_after(last).filter(|_| false)?;' \
    --lib a_run_of_whose_notes_any_are_lost_does_not_go_on
# What was lost is not done again by something else.
mutant changed actors/src/run/launch.rs \
    'again && !self.is_same_work(node, &refs)' 'false && again && !self.is_same_work(node, &refs)' \
    --test changed

for name in "${wanted[@]}"; do
    if [[ " ${known[*]} " != *" $name "* ]]; then
        printf 'there is no mutant %s: there is %s\n' "$name" "${known[*]}"
        failed=1
    fi
done
exit "$failed"
