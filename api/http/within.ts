/** Waiting for work that may take too long. */

/** The value, or null after so many milliseconds; what the work becomes later counts for nothing. */
export function within<T>(work: Promise<T>, milliseconds: number): Promise<T | null> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => resolve(null), milliseconds);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
