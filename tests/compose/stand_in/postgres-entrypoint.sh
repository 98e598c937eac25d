#!/bin/sh
# What docker-compose.yml uses of the entrypoint of the official PostgreSQL image, and no more.
set -eu
[ "${1:-postgres}" = postgres ] || exec "$@"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    # shellcheck disable=SC2086  # several words, as in the official image
    initdb --username="$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" ${POSTGRES_INITDB_ARGS:-}
    printf '\nhost all all all scram-sha-256\n' >> "$PGDATA/pg_hba.conf"
    # As there: a temporary server on a Unix socket only.
    pg_ctl -w start -o "-c listen_addresses=''" > /dev/null
    createdb --username="$POSTGRES_USER" --maintenance-db=postgres "$POSTGRES_DB"
    pg_ctl -w -m fast stop > /dev/null
fi
exec postgres -c 'listen_addresses=*'
