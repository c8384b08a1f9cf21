# SPDX-License-Identifier: Apache-2.0
# Folders of the room by subject: what is computed when a model is folded, what becomes of a model when it is imported.

file(GLOB QS_ONNX_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/onnx/fold/*.c ${CMAKE_CURRENT_SOURCE_DIR}/onnx/import/*.c)
