// Added to Emscripten's module: Module.call(question) asks the planner, text in, text out (entry.cc).
Module['call'] = function (question) {
  var size = lengthBytesUTF8(question) + 1;
  var place = _malloc(size);
  try {
    stringToUTF8(question, place, size);
    return UTF8ToString(_nest_call(place));
  } finally {
    _free(place);
  }
};
