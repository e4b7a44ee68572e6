"""Verbs that name the same operation: the author of a tool took one, the author of a request another."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mcp_ext_tools_search.ranking.stems import stem
from mcp_ext_tools_search.ranking.tokens import is_character

__all__ = ["CHINESE_VERB_GROUPS", "VERB_GROUPS", "related_verbs"]

VERB_GROUPS: Final = (
    "create add make new insert generate build register",
    "delete remove erase drop destroy clear",
    "list get fetch retrieve view read display lookup",
    "find search query discover locate lookup",
    "update edit modify change set alter rename",
    "send post publish submit share",
    "run execute start launch invoke trigger",
    "stop cancel abort terminate end halt",
    "upload import load",
    "download export save",
    "check verify validate test inspect",
    "compute calculate determine evaluate",
    "convert transform translate",
    "buy purchase order",
    "book reserve schedule",
)

CHINESE_VERB_GROUPS: Final = (
    "创建 新建 新增 添加 建立 增加 生成 建 加",
    "删除 移除 清除 清空 删",
    "获取 查看 列出 读取 查询 看 查",
    "搜索 查找 查询 检索 找 搜 查",
    "更新 修改 编辑 更改 设置 变更 改",
    "发送 发布 发表 提交 发",
    "运行 执行 启动 开启 打开 开",
    "停止 取消 终止 结束 关闭 关 停",
    "上传 导入 传",
    "下载 导出 保存",
    "检查 检测 验证 校验",
    "转换 翻译",
)
"""What definitions say in two characters, people say in one; no verb leads to that, which is in other words as well."""


def _by_stem() -> Mapping[str, tuple[str, ...]]:
    related: dict[str, dict[str, None]] = {}
    for group in VERB_GROUPS + CHINESE_VERB_GROUPS:
        stems = dict.fromkeys(map(stem, group.split()))
        for verb in stems:
            related.setdefault(verb, {}).update(stems)
    return MappingProxyType(
        {
            verb: tuple(other for other in others if other != verb and not is_character(other))
            for verb, others in related.items()
        }
    )


_RELATED: Final = _by_stem()


def related_verbs(stemmed: str) -> tuple[str, ...]:
    """Return the stems of the verbs that stand for the same operation; none for a word that is no such verb."""
    return _RELATED.get(stemmed, ())
