//! A disk in memory with faults: unsynced data is lost or torn, the disk fills up, syncs fail.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile, Extent};

const SECTOR_BYTES: usize = 512;

/// A disk in memory with injectable faults. Clones share the content.
///
/// The disk keeps two versions of every file, current and last synced. [`FaultyDisk::cut_power`] decides by a seed, sector by
/// sector, which version survives.
#[derive(Clone, Default)]
pub struct FaultyDisk {
    shared: Arc<Shared>,
    /// Number of power cuts and kills before this handle; the handle is dead after the next one.
    life: u64,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, Content>,
    /// Name changes since the last sync of names, in order. A power cut keeps some prefix.
    unsynced: Vec<NameChange>,
    /// Changes so far, and the number at which every operation starts to fail.
    changes: u64,
    changes_max: Option<u64>,
    life: u64,
    capacity: Option<u64>,
    syncs_until_failure: Option<u64>,
    syncs_held: bool,
    syncs_waiting: u64,
    syncs: u64,
}

enum NameChange {
    Renamed { from: String, to: String, replaced: Option<Content> },
    Removed { name: String, content: Content },
}

#[derive(Default, Clone)]
struct Content {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// Ranges for the next sync to write. A failed sync clears them, as Linux marks the pages clean.
    dirty: Vec<Range<usize>>,
    /// End of the highest byte ever written; counts as the file's allocation.
    written: u64,
    name_synced: bool,
}

impl FaultyDisk {
    /// An empty disk without faults.
    pub fn new() -> FaultyDisk {
        FaultyDisk::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.state();
        let alive = state.life == self.life && !state.is_dead();
        if alive { Ok(state) } else { Err(io::Error::other("the power was cut")) }
    }

    fn changing(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.live()?;
        if state.is_dead() {
            return Err(io::Error::other("the power was cut"));
        }
        state.changes += 1;
        Ok(state)
    }

    /// Cuts the power and returns the disk after the restart. This handle and its clones fail from here on. Each unsynced sector
    /// survives or not, by `seed`.
    pub fn cut_power(&self, seed: u64) -> FaultyDisk {
        let mut state = self.state();
        let mut random = seed;
        state.life += 1;
        state.syncs_held = false;
        state.syncs_until_failure = None;
        state.changes_max = None;
        state.forget_names(&mut random);
        state.files.retain(|_, content| content.name_synced || next(&mut random).is_multiple_of(2));
        for content in state.files.values_mut() {
            if next(&mut random).is_multiple_of(2) {
                // The length may be old or new, independent of the sectors.
                content.now.resize(content.synced.len(), 0);
            }
            let len = content.now.len();
            content.synced.resize(len, 0);
            for at in (0..len).step_by(SECTOR_BYTES) {
                let sector = at..len.min(at + SECTOR_BYTES);
                if content.now[sector.clone()] != content.synced[sector.clone()]
                    && next(&mut random).is_multiple_of(2)
                {
                    content.now[sector.clone()].copy_from_slice(&content.synced[sector]);
                }
            }
            content.synced = content.now.clone();
            content.dirty.clear();
            content.name_synced = true;
        }
        let life = state.life;
        drop(state);
        self.shared.released.notify_all();
        FaultyDisk { shared: self.shared.clone(), life }
    }

    /// Kills the process and returns the disk for the next one. This handle and its clones fail from here on. All written data
    /// survives, synced or not.
    pub fn kill(&self) -> FaultyDisk {
        let mut state = self.state();
        state.life += 1;
        state.syncs_held = false;
        let life = state.life;
        drop(state);
        self.shared.released.notify_all();
        FaultyDisk { shared: self.shared.clone(), life }
    }

    /// Allows `count` more changes (creating, writing, syncing, renaming, removing); then every operation fails until
    /// [`FaultyDisk::cut_power`].
    pub fn die_after(&self, count: u64) {
        let mut state = self.state();
        state.changes_max = Some(state.changes + count);
    }

    /// Number of changes so far.
    pub fn changes(&self) -> u64 {
        self.state().changes
    }

    /// Limits the bytes of all files; `None` removes the limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// Bytes of all files.
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// Makes all file syncs fail after `count` more.
    pub fn fail_sync_after(&self, count: u64) {
        self.state().syncs_until_failure = Some(count);
    }

    /// Ends [`FaultyDisk::fail_sync_after`]. Data of a failed sync stays unsynced until written again, as on Linux.
    pub fn repair_syncs(&self) {
        self.state().syncs_until_failure = None;
    }

    /// Blocks every sync until [`FaultyDisk::release_syncs`] or a power cut.
    pub fn hold_syncs(&self) {
        self.state().syncs_held = true;
    }

    /// Ends [`FaultyDisk::hold_syncs`].
    pub fn release_syncs(&self) {
        self.state().syncs_held = false;
        self.shared.released.notify_all();
    }

    /// Number of syncs blocked by [`FaultyDisk::hold_syncs`].
    pub fn syncs_waiting(&self) -> u64 {
        self.state().syncs_waiting
    }

    /// Number of file syncs so far.
    pub fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// Inverts `bits` of one byte, in both versions of a file.
    ///
    /// # Panics
    ///
    /// The file does not exist or is too short.
    pub fn flip(&self, name: &str, offset: usize, bits: u8) {
        let mut state = self.state();
        let content = state.files.get_mut(name).expect("the test names a file that exists");
        content.now[offset] ^= bits;
        if let Some(byte) = content.synced.get_mut(offset) {
            *byte ^= bits;
        }
    }
}

impl Content {
    fn settle(&mut self, fails: bool) -> io::Result<()> {
        let dirty = std::mem::take(&mut self.dirty);
        if fails {
            return Err(io::Error::other("input/output error"));
        }
        let len = self.now.len();
        self.synced.resize(len, 0);
        for range in dirty {
            let range = range.start.min(len)..range.end.min(len);
            self.synced[range.clone()].copy_from_slice(&self.now[range]);
        }
        Ok(())
    }
}

impl State {
    fn is_dead(&self) -> bool {
        self.changes_max.is_some_and(|most| self.changes >= most)
    }

    fn forget_names(&mut self, random: &mut u64) {
        if self.unsynced.is_empty() {
            return;
        }
        let kept = (next(random) % (self.unsynced.len() as u64 + 1)) as usize;
        for change in self.unsynced.drain(..).skip(kept).rev() {
            match change {
                NameChange::Renamed { from, to, replaced } => {
                    let moved = self.files.remove(&to).map(|content| self.files.insert(from, content));
                    debug_assert!(moved.is_some(), "later changes of the name are undone already");
                    self.files.extend(replaced.map(|content| (to, content)));
                }
                NameChange::Removed { name, content } => drop(self.files.insert(name, content)),
            }
        }
    }

    fn used(&self) -> u64 {
        self.files.values().map(|content| content.written).sum()
    }
}

fn next(random: &mut u64) -> u64 {
    *random = random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (*random ^ (*random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Disk for FaultyDisk {
    fn open(&self, name: &str, create: bool) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.live()?;
        if create && !state.files.contains_key(name) {
            drop(state);
            state = self.changing()?;
            state.files.insert(name.to_owned(), Content::default());
        } else if !state.files.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Arc::new(FaultyFile { disk: self.clone(), name: name.to_owned() }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.live()?.files.keys().cloned().collect())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.changing()?;
        let content = state.files.remove(name).ok_or(io::ErrorKind::NotFound)?;
        state.unsynced.push(NameChange::Removed { name: name.to_owned(), content });
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.changing()?;
        let content = state.files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        let replaced = state.files.insert(to.to_owned(), content);
        state.unsynced.push(NameChange::Renamed { from: from.to_owned(), to: to.to_owned(), replaced });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.changing()?;
        state.unsynced.clear();
        state.files.values_mut().for_each(|content| content.name_synced = true);
        Ok(())
    }
}

struct FaultyFile {
    disk: FaultyDisk,
    name: String,
}

impl FaultyFile {
    fn content<'a>(&self, state: &'a mut State) -> io::Result<&'a mut Content> {
        state.files.get_mut(&self.name).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl DiskFile for FaultyFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.disk.live()?;
        let content = self.content(&mut state)?;
        let from = content.now.get(offset as usize..).unwrap_or(&[]);
        let count = from.len().min(buffer.len());
        buffer[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }

    fn extent(&self) -> io::Result<Extent> {
        let mut state = self.disk.live()?;
        let now = &self.content(&mut state)?.now;
        // Trailing zeros count as a hole, as some file systems store them.
        let used = now.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
        Ok(Extent { len: now.len() as u64, used })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.changing()?;
        let free = state.capacity.map(|capacity| capacity.saturating_sub(state.used()));
        let content = self.content(&mut state)?;
        let end = offset + bytes.len() as u64;
        let room = free.map_or(end, |free| content.written + free);
        // A full disk writes the part that fits.
        let kept = &bytes[..end.min(room).saturating_sub(offset) as usize];
        let kept_end = offset as usize + kept.len();
        if content.now.len() < kept_end {
            content.now.resize(kept_end, 0);
        }
        content.now[offset as usize..kept_end].copy_from_slice(kept);
        content.written = content.written.max(kept_end as u64);
        content.dirty.push(offset as usize..kept_end);
        if end > room { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.changing()?;
        let content = self.content(&mut state)?;
        let (before, after) = (content.now.len(), len as usize);
        content.now.resize(after, 0);
        content.dirty.push(before.min(after)..before.max(after));
        content.written = content.written.min(len);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.changing()?;
        state.syncs_waiting += 1;
        while state.syncs_held && state.life == self.disk.life {
            state = self.disk.shared.released.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.syncs_waiting -= 1;
        if state.life != self.disk.life || state.is_dead() {
            return Err(io::Error::other("the power was cut"));
        }
        state.syncs += 1;
        let fails = state.syncs_until_failure.is_some_and(|left| left == 0);
        state.syncs_until_failure = state.syncs_until_failure.map(|left| left.saturating_sub(1));
        self.content(&mut state)?.settle(fails)
    }
}
