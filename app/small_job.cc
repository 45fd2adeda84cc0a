#include "small_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "nest/dimension.h"
#include "nest/error.h"
#include "nest/text.h"

namespace nest::app {

void refuse_stray_setting(const Question& question) {
  const std::string& name = question.model.name;
  const std::size_t equals = name.find('=');
  if (question.model.text || equals == std::string::npos) return;
  for (const Dimension& dimension : dimensions()) {
    if (name.substr(0, equals) != dimension.name) continue;
    std::string flag = dimension.name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    throw InputError(
        fmt::format("`{}` stands alone; write --{} {}", clip(name, 40), flag, clip(name.substr(equals + 1), 40)));
  }
}

Question small_question(Question question) {
  refuse_stray_setting(question);
  if (question.cluster.empty() && question.devices == 0 && question.nodes == 0) question.devices = kUsualDevices;
  return question;
}

TrainingJob read_small_job(Question question) { return read_job(small_question(std::move(question))); }

}  // namespace nest::app
