//! An input, its plan and its wheels, which most of what is shown of a split depends on.

use super::WheelSet;
use crate::source::Input;
use crate::split::Plan;

/// An input with the plan of its split.
#[derive(Clone, Copy, Debug)]
pub struct PlannedInput<'a> {
    pub input: &'a Input,
    pub plan: &'a Plan,
    /// The wheels, if the input is one that is split into wheels.
    pub wheels: Option<&'a WheelSet>,
}
