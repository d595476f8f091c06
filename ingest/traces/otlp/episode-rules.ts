/**
 * The setting `spans`: which spans of a program belong together, for whoever runs Troupe and cannot change the program. A rule is written
 * into the resource of what it matches, as the program itself could have set it, so everything that reads a span later finds its episode
 * without the setting: another thread, a rebuild, another machine.
 */
import { wrongSetting } from '../../../errors.ts';
import { isRecord } from '../../events/json.ts';
import { isIdentifier } from '../../events/text.ts';
import { EPISODE, EPISODE_BY, isOtlp } from './decode.ts';

export type EpisodeRule = {
  /** `service.name` of a resource; a prefix if it ends with `*`. */
  readonly service: string;
  /** The attribute that names the episode: of the span, else of the resource. */
  readonly by: string;
};

/** The rules of the setting, in their order. @throws TroupeError `config_invalid` naming the field. */
export function readEpisodeRules(setting: unknown): readonly EpisodeRule[] {
  if (setting == null) return [];
  if (!isRecord(setting)) throw wrongSetting('spans', 'a map with episodes', setting);
  const other = Object.keys(setting).find((name) => name !== 'episodes');
  if (other !== undefined) throw wrongSetting('spans', 'only episodes', other);
  const { episodes = [] } = setting;
  if (!Array.isArray(episodes))
    throw wrongSetting('spans.episodes', 'a list of rules, each with service and by', episodes);
  return episodes.map((rule: unknown, i) => {
    const at = `spans.episodes[${i}]`;
    if (!isRecord(rule)) throw wrongSetting(at, 'a map with service and by', rule);
    const strange = Object.keys(rule).find((name) => name !== 'service' && name !== 'by');
    if (strange !== undefined) throw wrongSetting(at, 'only service and by', strange);
    const { service, by } = rule;
    if (!isIdentifier(service) || service.slice(0, -1).includes('*'))
      throw wrongSetting(
        `${at}.service`,
        'the service.name of a program, or a prefix of it with * at its end',
        service,
      );
    if (!isIdentifier(by)) throw wrongSetting(`${at}.by`, 'the name of an attribute, such as session.id', by);
    return { service, by };
  });
}

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
