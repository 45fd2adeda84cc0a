#include "search/workers.h"

#include <algorithm>
#include <exception>

namespace nest::search {

int thread_count(std::int64_t asked) {
  return static_cast<int>(asked > 0 ? asked : std::max(1U, std::thread::hardware_concurrency()));
}

Workers::Workers(int threads) {
  for (int worker = 1; worker < threads; ++worker) {
    try {
      threads_.emplace_back([this, worker] { serve(worker); });
    } catch (const std::exception&) {
      // No more are to be had (limits of the user or the container, memory): fewer do, and the answer is the same. Where
      // it is memory that lacks, stacks have taken all of it: three of four go back, so that the others can work.
      dismiss(threads_.size() / 4);
      break;
    }
  }
}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::dismiss(std::size_t keep) {
  {
    const std::lock_guard lock(mutex_);
    last_ = static_cast<int>(keep);
  }
  start_.notify_all();
  while (threads_.size() > keep) {
    threads_.back().join();
    threads_.pop_back();
  }
}

void Workers::drain(int worker) {
  for (std::size_t item = next_++; item < items_; item = next_++) {
    try {
      (*work_)(item, worker);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!failure_ || item < failed_item_) {
        failure_ = std::current_exception();
        failed_item_ = item;
      }
    }
  }
}

void Workers::serve(int worker) {
  std::uint64_t seen = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stop_ || worker > last_ || round_ != seen; });
      if (stop_ || worker > last_) return;
      seen = round_;
    }
    drain(worker);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) done_.notify_one();
  }
}

void Workers::for_each(std::size_t items, const std::function<void(std::size_t, int)>& work) {
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    items_ = items;
    next_ = 0;
    failure_ = nullptr;
    busy_ = static_cast<int>(threads_.size());
    ++round_;
  }
  if (items > 1) {
    start_.notify_all();
    drain(0);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return busy_ == 0; });
  } else {
    drain(0);
    // The others find nothing left; they are waited for so that no round overlaps the next.
    start_.notify_all();
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return busy_ == 0; });
  }
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace nest::search
