/**
 * The setting `spans`: which spans of a program belong together, for whoever runs Troupe and cannot change the program. A rule is written
 * into the resource of what it matches, as the program itself could have set it, so everything that reads a span later finds its episode
 * without the setting: another thread, a rebuild, another machine.
 */
import { type Static, Type } from 'typebox';
import { read } from '../../../document.ts';
import { isRecord } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { EPISODE, EPISODE_BY, isOtlp } from './decode.ts';

const EpisodeRule = Type.Object(
  {
    service: Type.String({
      description: '`service.name` of a resource; a prefix if it ends with `*`',
      fits: (name: string) => isIdentifier(name) && !name.slice(0, -1).includes('*'),
      expects: 'the service.name of a program, or a prefix of it with * at its end',
    }),
    by: Type.String({
      description: 'the attribute that names the episode: of the span, else of the resource',
      fits: isIdentifier,
      expects: 'the name of an attribute, such as session.id',
    }),
  },
  { additionalProperties: false },
);
export type EpisodeRule = Readonly<Static<typeof EpisodeRule>>;

const Setting = Type.Object({ episodes: Type.Optional(Type.Array(EpisodeRule)) }, { additionalProperties: false });

/** The rules of the setting, in their order. @throws TroupeError `config_invalid` naming the field. */
export const readEpisodeRules = (setting: unknown): readonly EpisodeRule[] =>
  read(Setting, setting ?? {}, { called: 'spans', at: 'spans', code: 'config_invalid' }).episodes ?? [];

/**
 * A request, or a list of requests, with the first rule that matches written into each resource; what is no request of OTLP, and a resource
 * that names its episodes itself, stay as they are. Nothing of what was given is changed.
 */
export function withEpisodes<T>(value: T, rules: readonly EpisodeRule[]): T {
  if (rules.length === 0) return value;
  if (Array.isArray(value)) return value.map((one) => withEpisodes(one, rules)) as T;
  if (!isOtlp(value)) return value;
  const groups = Object.fromEntries(
    ['resourceSpans', 'resourceLogs'].flatMap((name) => {
      const list: unknown = value[name];
      return Array.isArray(list) ? [[name, list.map((group: unknown) => ruled(group, rules))]] : [];
    }),
  );
  return { ...value, ...groups };
}

function ruled(group: unknown, rules: readonly EpisodeRule[]): unknown {
  if (!isRecord(group) || !isRecord(group.resource) || !Array.isArray(group.resource.attributes)) return group;
  const { attributes } = group.resource;
  const textOf = (name: string): unknown => {
    const found: unknown = attributes.findLast((one: unknown) => isRecord(one) && one.key === name);
    return isRecord(found) && isRecord(found.value) ? found.value.stringValue : undefined;
  };
  const service = textOf('service.name');
  if (typeof service !== 'string' || [EPISODE, EPISODE_BY].some((name) => textOf(name) !== undefined)) return group;
  const rule = rules.find((one) =>
    one.service.endsWith('*') ? service.startsWith(one.service.slice(0, -1)) : service === one.service,
  );
  if (rule === undefined) return group;
  const shared = textOf(rule.by);
  const named = [
    { key: EPISODE_BY, value: { stringValue: rule.by } },
    ...(isIdentifier(shared) ? [{ key: EPISODE, value: { stringValue: shared } }] : []),
  ];
  return { ...group, resource: { ...group.resource, attributes: [...attributes, ...named] } };
}
