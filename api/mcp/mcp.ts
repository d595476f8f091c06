/**
 * The operations as tools of the Model Context Protocol: what each may do over HTTP, for a caller with these scopes. There are no sessions,
 * so one function answers a message, whichever way it came (revision 2026-07-28, and the handshake of those before it).
 */
import { TroupeError } from '../../errors.ts';
import { asText, isRecord } from '../../ingest/events/json.ts';
import { environmentError } from '../../store/db/faults.ts';
import type { Scope } from '../../store/keys/api-key.ts';
import { allOperations } from '../operations/catalogue.ts';
import { nounOf } from '../operations/names.ts';
import { type Operation, shownSchema } from '../operations/operation.ts';
import { contentField, overHttp, resultField } from '../operations/route.ts';

const MODERN = '2026-07-28';
const WITH_HANDSHAKE = ['2025-11-25', '2025-06-18', '2025-03-26'] as const;
const META = 'io.modelcontextprotocol';

/** Characters of a result. A model pays for each of them. */
const MOST = 40_000;

/** What a caller may do who shows no key. */
export const READING: readonly Scope[] = ['read', 'sql'];

export type McpCaller = {
  readonly scopes: readonly Scope[];
  readonly perform: (operation: Operation, input: unknown) => Promise<unknown>;
  /** Address of the page. */
  readonly page: string;
  readonly version: string;
};

/** The view of the page that shows more. */
const VIEWS: Readonly<Record<string, string>> = {
  ...{ episodes: 'episodes', plan: 'runs', gate: 'runs', release: 'releases', releases: 'releases' },
  ...{ rollback: 'releases', policies: 'releases', schedule: 'schedules', compare: 'compare', sql: 'sql' },
};

/** The answer to a message; null to one that wants none. */
export async function answerMcp(message: unknown, caller: McpCaller): Promise<object | null> {
  const { id, method, params } = isRecord(message) ? message : {};
  if (typeof method !== 'string' || (id !== undefined && typeof id !== 'string' && typeof id !== 'number'))
    return failed(null, -32600, 'A message should be a JSON-RPC request with a method and an id.');
  if (id === undefined) return null;
  const given = isRecord(params) ? params : {};
  const meta = isRecord(given._meta) ? given._meta : {};
  const version = meta[`${META}/protocolVersion`];
  if (version !== undefined && version !== MODERN)
    return failed(id, -32022, 'Unsupported protocol version', { supported: [MODERN], requested: version });
  try {
    const result = await resultOf(method, given, caller);
    if (result === null) return failed(id, -32601, `There is no method ${method}.`);
    return {
      jsonrpc: '2.0',
      id,
      result: {
        ...result,
        ...(version === undefined ? {} : { resultType: 'complete', _meta: { [`${META}/serverInfo`]: infoOf(caller) } }),
      },
    };
  } catch (error) {
    const known = knownError(error);
    return failed(id, known === null ? -32603 : -32602, known?.message ?? 'Internal error');
  }
}

const failed = (id: string | number | null, code: number, message: string, data?: object) => ({
  ...{ jsonrpc: '2.0', id },
  error: { code, message, ...(data === undefined ? {} : { data }) },
});

const infoOf = ({ version }: McpCaller) => ({ name: 'troupe', version });

const knownError = (error: unknown): TroupeError | null =>
  error instanceof TroupeError ? error : environmentError(error);

/** Lists depend on the scopes of the caller and change with the program. */
const CACHED = { ttlMs: 60_000, cacheScope: 'private' } as const;

async function resultOf(
  method: string,
  params: Readonly<Record<string, unknown>>,
  caller: McpCaller,
): Promise<object | null> {
  const capabilities = { tools: {}, resources: {} };
  const instructions =
    'Troupe records what a team of agents does, judges it and trains models on it. sql asks the views of traj and report, which are the resources here; the other tools are the operations of `troupe`. Lists have total, limit, and next, which is the `after` of the next page.';
  switch (method) {
    case 'server/discover':
      return { ...CACHED, supportedVersions: [MODERN], capabilities, instructions };
    case 'initialize': {
      const protocolVersion = WITH_HANDSHAKE.find((one) => one === params.protocolVersion) ?? WITH_HANDSHAKE[0];
      return { protocolVersion, capabilities, serverInfo: infoOf(caller), instructions };
    }
    case 'ping':
      return {};
    case 'tools/list':
      return { ...CACHED, tools: (await toolsFor(caller)).map(toolOf) };
    case 'tools/call':
      return called(params, caller);
    case 'resources/list':
      return { ...CACHED, resources: await resources(caller) };
    case 'resources/read':
      return { ...CACHED, contents: [await resource(asText(params.uri), caller)] };
    default:
      return null;
  }
}

/** An operation whose result is a file is none of them. */
async function toolsFor({ scopes }: McpCaller): Promise<readonly Operation[]> {
  return (await allOperations()).flatMap((declared) => {
    const operation = (resultField(declared) ?? contentField(declared)) === undefined ? overHttp(declared) : null;
    return operation !== null && (scopes.includes('admin') || scopes.includes(operation.scope)) ? [operation] : [];
  });
}

/** Names of tools have no dots in the interfaces of models. */
const nameOf = ({ name }: Operation): string => name.replace('.', '_');

const toolOf = (operation: Operation) => ({
  name: nameOf(operation),
  description: [`${operation.about}.`, operation.notes].filter(Boolean).join(' '),
  inputSchema: shownSchema(operation.input),
  annotations: { readOnlyHint: !operation.changes, openWorldHint: false },
});

/** What an operation refuses is for the model to read, so it is a result. @throws TroupeError `not_found` for no tool of the caller */
async function called({ name, arguments: given = {} }: Readonly<Record<string, unknown>>, caller: McpCaller) {
  const operation = (await toolsFor(caller)).find((one) => nameOf(one) === name);
  if (operation === undefined) throw new TroupeError('not_found', `There is no tool ${asText(name)} for this caller.`);
  try {
    const text = JSON.stringify(await caller.perform(operation, given));
    const link = linkTo(operation, given, caller);
    const cut = `\n… the first ${MOST} of ${text.length} characters: ask for fewer rows or fields.`;
    const shown = text.length <= MOST ? text : `${text.slice(0, MOST).replace(/[\ud800-\udbff]$/, '')}${cut}`;
    return { content: [textOf(shown), textOf(`On the page: ${link}`)] };
  } catch (error) {
    const known = knownError(error);
    if (known === null) throw error;
    const { cause, ...detail } = known.detail;
    const told = { code: known.code, message: known.message, ...detail };
    return { content: [textOf(JSON.stringify({ error: told }))], isError: true };
  }
}

const textOf = (text: string) => ({ type: 'text', text });

function linkTo(operation: Operation, given: unknown, { page }: McpCaller): string {
  const view = VIEWS[nounOf(operation)];
  const { episode, run } = isRecord(given) ? given : {};
  const id = view === 'episodes' ? episode : view === 'runs' ? run : undefined;
  const one = typeof id === 'string' ? `/${encodeURIComponent(id)}` : '';
  return `${page}/#/${view === undefined ? `docs/${operation.name}` : `${view}${one}`}`;
}

const VIEW_URI = 'troupe://views/';

type View = { readonly name: string; readonly about: string | null };

async function viewsBy(verb: 'list' | 'show', input: object, { perform }: McpCaller): Promise<unknown> {
  const operation = (await allOperations()).find(({ name }) => name === `views.${verb}`)!;
  return perform(operation, input);
}

async function resources(caller: McpCaller) {
  const { items } = (await viewsBy('list', { limit: 500 }, caller)) as { readonly items: readonly View[] };
  return items.map(({ name, about }) => ({
    ...{ uri: `${VIEW_URI}${name}`, name, mimeType: 'application/json' },
    ...(about === null ? {} : { description: about }),
  }));
}

async function resource(uri: string, caller: McpCaller) {
  if (!uri.startsWith(VIEW_URI)) throw new TroupeError('not_found', `There is no resource ${uri}.`);
  const view = await viewsBy('show', { view: uri.slice(VIEW_URI.length) }, caller);
  return { uri, mimeType: 'application/json', text: JSON.stringify(view) };
}
