"""The providers: each module has one, as `PROVIDER`, under the module's name."""
