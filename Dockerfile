# Builds Commons from source: `docker build --tag commons:local .`
# Where no image can be pulled, scripts/compose-offline.sh puts a binary that Go
# built outside into the last stage.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=""
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false \
      -ldflags "-s -w -X github.com/commons-cluster/commons/node/cli.version=${VERSION}" \
      -o /out/commons . \
    && mkdir -m 700 /out/data /out/secret /out/backup

# Nothing but the binary, which brings the roots for TLS along, and the
# directories that a new volume takes its owner from.
FROM scratch
COPY --from=build --chown=10001:10001 /out/ /
USER 10001:10001
ENV COMMONS_DATA_DIR=/data \
    COMMONS_HTTP_ADDR=0.0.0.0:8080 \
    COMMONS_CLUSTER_ADDR=0.0.0.0:7000 \
    COMMONS_GOSSIP_ADDR=0.0.0.0:7946
EXPOSE 8080 7000 7946 7946/udp
ENTRYPOINT ["/commons"]
CMD ["serve"]
