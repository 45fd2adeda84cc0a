// A fixed set of threads that work through numbered items.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace nest::search {

// Threads that were asked for; 0: one per core.
int thread_count(std::int64_t asked);

class Workers {
 public:
  // As many as asked for, or as the system grants.
  explicit Workers(int threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls work(item, worker) for every item in [0, items), worker in [0, size()), and returns when all are done.
  // Rethrows the exception of the lowest-numbered item that threw.
  void for_each(std::size_t items, const std::function<void(std::size_t, int)>& work);

 private:
  void dismiss(std::size_t keep);  // ends all threads but the first `keep`, before any work
  void serve(int worker);
  void drain(int worker);

  std::mutex mutex_;
  std::condition_variable start_, done_;
  std::uint64_t round_ = 0;
  int busy_ = 0;
  bool stop_ = false;
  int last_ = std::numeric_limits<int>::max();  // threads above it end
  const std::function<void(std::size_t, int)>* work_ = nullptr;
  std::size_t items_ = 0;
  std::atomic<std::size_t> next_{0};
  std::size_t failed_item_ = 0;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

}  // namespace nest::search
