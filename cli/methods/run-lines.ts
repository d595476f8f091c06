/** `troupe method run-lines`: many runs of methods, one a line. */
import { once } from 'node:events';
import { createReadStream, type ReadStream } from 'node:fs';
import type { Command } from 'commander';
import { countText, EXIT, unreadable } from '../../errors.ts';
import { MAX_RECORD_BYTES } from '../../ingest/events/json.ts';
import { plainCommand } from '../command.ts';
import { say } from '../output.ts';

export function addTo(method: Command): void {
  plainCommand(
    method
      .command('run-lines')
      .description('run a method for each line {"method":…,"input":…} of a file or of standard input')
      .argument('[file]', 'JSON lines; standard input if left out or -')
      .addHelpText(
        'after',
        `\nExamples:\n  echo '{"method":"uct","input":{"q":0.5,"parent_visits":9,"child_visits":3,"c":1}}' | troupe method run-lines\n` +
          '  troupe method run-lines asked.ndjson > answered.ndjson\n' +
          '\nEach line that is not empty gets one line, in order: {"output":…}, or {"error":{"code","message"}} and the rest goes on.\n' +
          `Exit code 0 when every line was answered with an output, 3 when some were refused. A line may have ${MAX_RECORD_BYTES} bytes.`,
      ),
    async ([file = '-'], { quiet }) => {
      const { answerLines } = await import('./method-lines.ts');
      let lines = 0;
      const refused: number[] = [];
      for await (const { line, text, answered } of answerLines(file === '-' ? process.stdin : await opened(file))) {
        lines++;
        if (!answered) refused.push(line);
        if (!process.stdout.write(`${text}\n`)) await once(process.stdout, 'drain');
      }
      if (refused.length === 0) return EXIT.done;
      if (!quiet) say(`${refused.length} of ${countText(lines, 'line')} refused, the first is line ${refused[0]}.`);
      return EXIT.refused;
    },
  );
}

async function opened(path: string): Promise<ReadStream> {
  const stream = createReadStream(path);
  try {
    await once(stream, 'open');
  } catch (cause) {
    throw unreadable(path, cause);
  }
  return stream;
}
