//! Amounts, and how they change.

use serde::Serialize;

use crate::report::table::percent;

/// A number of things and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Amount {
    /// Their number.
    pub count: u64,
    /// Their bytes.
    pub size: u64,
}

/// A value before and after.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Pair<T> {
    /// In the first input.
    pub before: T,
    /// In the second input.
    pub after: T,
}

/// Numbers of equal, changed, added and removed items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Changes {
    /// In both, and equal.
    pub same: Amount,
    /// In both, and different.
    pub changed: Pair<Amount>,
    /// In the second input only.
    pub added: Amount,
    /// In the first input only.
    pub removed: Amount,
}

/// The change of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", const_into_str)]
pub(crate) enum Change {
    /// Equal.
    Same,
    /// Different.
    Changed,
    /// Added.
    Added,
    /// Removed.
    Removed,
}

impl<T> Pair<T> {
    pub(super) fn side(&mut self, is_after: bool) -> &mut T {
        if is_after { &mut self.after } else { &mut self.before }
    }
}

impl Pair<Amount> {
    pub(super) fn plus(self, other: Self) -> Self {
        Self { before: self.before.plus(other.before), after: self.after.plus(other.after) }
    }
}

impl Amount {
    pub(super) fn add(&mut self, count: u64, size: u64) {
        self.count += count;
        self.size = self.size.saturating_add(size);
    }

    pub(super) fn plus(mut self, other: Self) -> Self {
        self.add(other.count, other.size);
        self
    }
}

impl Changes {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            same: self.same.plus(other.same),
            changed: self.changed.plus(other.changed),
            added: self.added.plus(other.added),
            removed: self.removed.plus(other.removed),
        }
    }

    /// Whether nothing differs.
    pub(crate) fn is_same(&self) -> bool {
        *self == Self { same: self.same, ..Self::default() }
    }

    /// Everything before.
    pub(crate) fn before(&self) -> Amount {
        self.same.plus(self.changed.before).plus(self.removed)
    }

    /// Everything after.
    pub(crate) fn after(&self) -> Amount {
        self.same.plus(self.changed.after).plus(self.added)
    }

    /// The share of equal items in those after; `None` if there are none on one side.
    pub(crate) fn equal(&self) -> Option<String> {
        let all = self.after().count;
        (all > 0 && self.before().count > 0).then(|| percent(self.same.count, all))
    }

    /// Counts an item, which exists or not on each side.
    pub(super) fn count(&mut self, before: Option<Amount>, after: Option<Amount>, is_equal: bool) -> Change {
        let change = Change::of(before.is_some(), after.is_some(), is_equal);
        let pair = Pair { before: before.unwrap_or_default(), after: after.unwrap_or_default() };
        match change {
            Change::Same => self.same = self.same.plus(pair.after),
            Change::Changed => self.changed = self.changed.plus(pair),
            Change::Added => self.added = self.added.plus(pair.after),
            Change::Removed => self.removed = self.removed.plus(pair.before),
        }
        change
    }
}

impl Change {
    /// The change of an item that exists or not on each side.
    pub(super) fn of(before: bool, after: bool, is_equal: bool) -> Self {
        match (before, after) {
            (false, _) => Self::Added,
            (true, false) => Self::Removed,
            (true, true) if is_equal => Self::Same,
            (true, true) => Self::Changed,
        }
    }
}
