# A served tagger, from the wheel that `make dist` writes:
#
#     make dist
#     docker build -t schirn .
#     docker run -p 8000:8000 -v ./tagger.schirn:/model/tagger.schirn:ro -e SCHIRN_TOKEN=secret schirn
FROM python:3.12-slim
COPY dist/*.whl /wheel/
RUN pip install --no-cache-dir "$(ls /wheel/*.whl)[review]" && rm -r /wheel
RUN useradd --create-home schirn
USER schirn
ENV OMP_NUM_THREADS=1
EXPOSE 8000
HEALTHCHECK CMD python -c "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health')"
STOPSIGNAL SIGTERM
ENTRYPOINT ["schirn", "serve", "--host", "0.0.0.0", "--port", "8000"]
CMD ["/model/tagger.schirn"]
