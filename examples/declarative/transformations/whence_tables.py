"""Describes all tables of the verification and the metrics; the pipeline's configuration names the traces."""

from pyspark.sql import SparkSession

from whence.pipeline.declarative import define

spark = SparkSession.active()
define(spark)
