/** `troupe mcp`: the operations as tools for coding agents, over standard input and output. */
import { createInterface } from 'node:readline';
import type { Command } from 'commander';
import { answerMcp, READING } from '../../api/mcp/mcp.ts';
import { perform } from '../../api/operations/perform.ts';
import { got, TroupeError } from '../../errors.ts';
import { SCOPES, type Scope } from '../../store/keys/api-key.ts';
import { projectCommand, who } from '../command.ts';
import { operationContext } from '../context.ts';
import { VERSION } from '../version.ts';

export function addTo(program: Command): void {
  projectCommand(
    program
      .command('mcp')
      .option('--scopes <list>', `what may be done: ${SCOPES.join(', ')}`, READING.join(','))
      .option('--by <who>', 'who changes something (default: the user of this machine)')
      .addHelpText(
        'after',
        '\nA coding agent starts it. Without --scopes it only reads. A running Troupe has the same tools at POST /mcp.\n\nExamples:\n  claude mcp add troupe -- npx troupe mcp\n  troupe mcp --scopes read,sql,train',
      ),
    async (context, _, flags) => {
      const asked = { ...operationContext(context, who(flags)), isHere: false };
      const { host, port } = context.config;
      const running = new Map<unknown, AbortController>();
      const answers = new Set<Promise<void>>();
      for await (const line of createInterface({ input: process.stdin })) {
        if (line.trim() === '') continue;
        const message = parsed(line);
        const { id, method, params } = message as { id?: unknown; method?: unknown; params?: { requestId?: unknown } };
        if (method === 'notifications/cancelled') running.get(params?.requestId)?.abort();
        const stop = new AbortController();
        running.set(id, stop);
        const answered = answerMcp(message, {
          scopes: String(flags.scopes).split(',') as Scope[],
          perform: (operation, input) => perform(operation, { ...asked, signal: stop.signal }, input),
          page: `http://${host}:${port}`,
          version: VERSION,
        })
          .then((answer) => {
            if (answer !== null && !stop.signal.aborted) process.stdout.write(`${JSON.stringify(answer)}\n`);
          })
          .finally(() => {
            running.delete(id);
            answers.delete(answered);
          });
        answers.add(answered);
      }
      await Promise.all(answers);
      return undefined;
    },
    async (_, { scopes }) => {
      for (const scope of String(scopes).split(','))
        if (!(SCOPES as readonly string[]).includes(scope))
          throw new TroupeError('usage', `--scopes should be of ${SCOPES.join(', ')}, but it is ${got(scope)}.`);
    },
  );
}

/** A line that is no JSON is a message that is none, which is answered so. */
function parsed(line: string): object {
  try {
    return Object(JSON.parse(line));
  } catch {
    return {};
  }
}
