/**
 * The line of a program's last words that names its error: the last one that is not indented, as in the traces of Python and of Node,
 * whose own version may come behind. Pure.
 */
export function errorLine(message: string): string {
  const lines = message.split('\n');
  return lines.findLast((line, i) => i > 0 && /^\p{L}/u.test(line) && !/^Node\.js v/.test(line)) ?? message;
}
