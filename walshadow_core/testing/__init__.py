"""For tests of walshadow and of its plugins: real Postgres servers, and the contract suites."""
