//! How often `run` looks for offers by itself: a duration, or `off`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::CheckInterval;
use crate::duration::DurationText;

/// A [`CheckInterval`] that reads and prints as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CheckIntervalText(pub(crate) CheckInterval);

impl Serialize for CheckIntervalText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            CheckInterval::Off => serializer.serialize_str("off"),
            CheckInterval::Every(duration) => DurationText(duration).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for CheckIntervalText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == "off" {
            return Ok(Self(CheckInterval::Off));
        }
        match text.parse::<DurationText>() {
            Ok(DurationText(Duration::ZERO)) => Err(serde::de::Error::custom(
                "expected more than no time, or \"off\" to look only when asked",
            )),
            Ok(DurationText(duration)) => Ok(Self(CheckInterval::Every(duration))),
            Err(reason) => Err(serde::de::Error::custom(format!("{reason}; \"off\" looks only when asked"))),
        }
    }
}
