# A served tagger, from the wheel that `make dist` writes:
#
#     make dist
#     docker build -t schirn .
#     docker run -p 8000:8000 -v ./tagger.schirn:/model/tagger.schirn:ro -e SCHIRN_TOKEN=secret schirn
#
# For the other commands of the program and for Dask, with the entry point replaced:
#
#     docker build --build-arg EXTRAS=review,table,distributed -t schirn .
FROM python:3.12-slim
ARG EXTRAS=review
COPY dist/*.whl /wheel/
RUN pip install --no-cache-dir "$(ls /wheel/*.whl)[$EXTRAS]" && rm -r /wheel
RUN useradd --create-home --uid 1000 schirn
# A number, so that Kubernetes can see that it is not root.
USER 1000
ENV OMP_NUM_THREADS=1
EXPOSE 8000
HEALTHCHECK CMD python -c "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health')"
STOPSIGNAL SIGTERM
ENTRYPOINT ["schirn", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["/model/tagger.schirn"]
