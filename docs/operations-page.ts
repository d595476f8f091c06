/** What is made of the declared operations: docs/commands.md and the routes that the client knows. */
import { allOperations } from '../api/operations/catalogue.ts';
import { methodOf, nounOf } from '../api/operations/names.ts';
import type { Operation } from '../api/operations/operation.ts';
import { contentField, isJob, overHttp, resultField, routeOf } from '../api/operations/route.ts';
import { lineOf, optionsOf } from '../cli/derive.ts';
import { page, table } from './pages.ts';

/** api/client/routes.ts. */
export async function clientRoutes(): Promise<string> {
  const routes = (await allOperations()).filter(overHttp).map((operation) => {
    const { method, url } = routeOf(operation);
    const kind = isJob(operation) ? 'long' : contentField(operation) && 'content';
    const key = /^\w+$/.test(operation.name) ? operation.name : `'${operation.name}'`;
    return `  ${key}: ['${method}', '${url}'${kind === undefined ? '' : `, '${kind}'`}],`;
  });
  return [
    '/** Made from the operations by `npm run docs`: the method and the path of each, which the client knows without their declarations. */',
    "export const ROUTES: Readonly<Record<string, readonly [method: string, path: string, kind?: 'long' | 'content']>> = {",
    ...routes,
    '};',
    '',
  ].join('\n');
}

/** docs/commands.md: every operation with its command, its route and its method. */
export async function commandsPage(): Promise<string> {
  const operations = await allOperations();
  return page(
    '# Operations',
    'What a user can ask for, by every interface: the command, HTTP ([keys](keys.md) have scopes), and the methods of `openProject()` and of `connect()` of `troupe/client` ([library](library.md)). All take the same input and answer with the same output, which `--json` prints; `/openapi.json` of a running Troupe has their schemas. `--by` of a command says who changes something; over HTTP that is the name of the key. A list is read on with `after`, the `next` of the page before.',
    ...operations.flatMap((operation, i) => [
      ...(i === 0 || nounOf(operation) !== nounOf(operations[i - 1]!) ? [`## ${nounOf(operation)}`] : []),
      ...sectionOf(operation),
    ]),
  );
}

/** Lines that stand apart in the help of a command. */
const INDENTED = /(?:^ {2}.*(?:\n|$))+/gm;
const fenced = (lines: string): string => `\n\`\`\`text\n${lines.replace(/^ {2}/gm, '').trimEnd()}\n\`\`\`\n`;

const shownNotes = (notes: string): string =>
  notes
    .replace(INDENTED, fenced)
    .replace(/\n{3,}/g, '\n\n')
    .trim();

function sectionOf(operation: Operation): string[] {
  const { about, examples, notes } = operation;
  const options = optionsOf(operation);
  const method = ['project', nounOf(operation), methodOf(operation)].filter((part) => part !== '').join('.');
  return [
    `### ${operation.name.replace('.', ' ')}`,
    `${about[0]!.toUpperCase()}${about.slice(1)}.`,
    ...(notes === undefined ? [] : [shownNotes(notes)]),
    ['```sh', ...examples.map((example) => lineOf(operation, example)), '```'].join('\n'),
    `${httpText(operation)} · \`${method}(${JSON.stringify(examples[0] ?? {})})\``,
    ...(options.length === 0 ? [] : [table(['field', 'option', 'meaning'], options)]),
  ];
}

function httpText(operation: Operation): string {
  if (overHttp(operation) === null) return 'not over HTTP, for it is about folders of its machine';
  const { method, url } = routeOf(operation);
  const path = url.replace(/:(\w+)/, (_, name: string) => name.toUpperCase());
  const ways = {
    result: ', answered with its result',
    results: ', answered with its files as a tar archive',
  };
  const written = resultField(operation)?.kind;
  const answer = written ? ways[written] : isJob(operation) ? ', answered with a job' : '';
  const body =
    contentField(operation) === undefined ? '' : ', its body the content of a file, its other fields in the query';
  return `\`${method} ${path}\`, scope \`${operation.scope}\`${body}${answer}`;
}
