"""Transformers built by hand that meet the exact minimum depths: programs, their weights, and trials."""

from hopscope.theory.witness.built import Witness as Witness
from hopscope.theory.witness.built import build_witness as build_witness
