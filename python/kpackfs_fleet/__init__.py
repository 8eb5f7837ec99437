"""Splits a release of many wheels on the workers of a Dask cluster; `docs/fleet.md` describes it."""
