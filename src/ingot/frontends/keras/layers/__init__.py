"""Keras' layers by family. Importing this enters all of them in the table."""

from ingot.frontends.keras import operations as operations
from ingot.frontends.keras.layers import activation as activation
from ingot.frontends.keras.layers import attention as attention
from ingot.frontends.keras.layers import convolution as convolution
from ingot.frontends.keras.layers import core as core
from ingot.frontends.keras.layers import merging as merging
from ingot.frontends.keras.layers import normalization as normalization
from ingot.frontends.keras.layers import pooling as pooling
from ingot.frontends.keras.layers import preprocessing as preprocessing
from ingot.frontends.keras.layers import recurrent as recurrent
from ingot.frontends.keras.layers import reshaping as reshaping
from ingot.frontends.keras.layers import wrappers as wrappers
