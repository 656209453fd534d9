# Debian's Prometheus, which is of major version 2: labels of the environment are its option.
ARG DEBIAN
FROM ${DEBIAN}
RUN apt-get update \
  && apt-get install --yes --no-install-recommends prometheus wget \
  && rm -rf /var/lib/apt/lists/* \
  && install -d -o nobody -g nogroup /prometheus
USER nobody
VOLUME /prometheus
ENTRYPOINT ["prometheus", "--enable-feature=expand-external-labels"]
