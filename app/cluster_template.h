// A cluster file to start from, for those who know their machines by heart.
#pragma once

namespace nest::app {

// N nodes of 8 GPUs, a port per GPU into its rail, leaf switches with 2:1 uplinks: YAML with a comment beside every number.
const char* cluster_template();

}  // namespace nest::app
