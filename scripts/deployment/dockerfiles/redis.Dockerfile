# Debian's Redis under the numbers of user and group that the published image has.
ARG DEBIAN
FROM ${DEBIAN}
RUN groupadd --gid 999 redis \
  && useradd --uid 999 --gid 999 --no-create-home --home-dir /data redis \
  && apt-get update \
  && apt-get install --yes --no-install-recommends redis-server \
  && rm -rf /var/lib/apt/lists/* \
  && install -d -o redis -g redis /data
VOLUME /data
WORKDIR /data
CMD ["redis-server"]
