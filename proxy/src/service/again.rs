//! Where a request, or an opaque connection, goes after an endpoint did not serve it.

use crate::service::Service;
use balance::balancer::{Pick, RetryRefused, Served};
use balance::endpoint::{EndpointKey, Locality};
use balance::snapshot::EndpointSnapshot;
use balance::time::Timestamp;

/// Draws for a further attempt before it is taken that no other endpoint is left.
const DRAWS_MAX: usize = 8;

/// The most endpoints of a service that are looked through for one request.
const SPARES_OF_MAX: usize = 500;

/// What a pick for a further attempt has to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Again<'a> {
    /// The endpoint that failed last.
    pub(crate) failed: Served,
    /// Endpoints that are not to be asked again.
    pub(crate) refused: &'a [EndpointKey],
}

impl Service {
    /// Picks for a further attempt; see `Balancer::pick_retry`. Never an endpoint that refused before.
    pub(crate) fn pick_again(
        &self,
        again: Again<'_>,
        now: Timestamp,
    ) -> Result<Pick, RetryRefused> {
        let mut balancer = self.balancer.lock();
        for _ in 0..DRAWS_MAX {
            let pick = balancer.pick_retry(again.failed, now)?;
            if !again.refused.contains(&pick.endpoint) {
                return Ok(pick);
            }
            balancer.cancelled(pick.ticket, now);
        }
        Err(RetryRefused::NoOther)
    }

    /// Where a request may still go of which nothing was sent, when the balancer allows no retry: serving endpoints first, local
    /// before remote, the least busy before others. Past the balancer, which learns nothing of it: that is for the moments in
    /// which half of the endpoints are gone. Nothing for services that are too large to be looked through.
    pub(crate) fn spares(&self, now: Timestamp) -> Vec<(EndpointKey, Locality)> {
        let state = self.state.load();
        if state.endpoints.len() > SPARES_OF_MAX {
            return Vec::new();
        }
        let may_cross = state.settings.config.remote_share_max >= 1.0;
        let mut seen = self.balancer.lock().snapshot(now).endpoints;
        seen.retain(|seen| may_cross || seen.locality == Locality::Local);
        let is_remote = |seen: &EndpointSnapshot| seen.locality == Locality::Remote;
        seen.sort_by_key(|seen| (seen.state, is_remote(seen), seen.tier, seen.outstanding));
        seen.iter().map(|seen| (seen.key, seen.locality)).collect()
    }
}
