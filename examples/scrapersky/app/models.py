# SPDX-License-Identifier: Apache-2.0
"""ScraperSky's two tables, and phase 1 of its job loop: mark a batch."""

from sqlalchemy import Column, DateTime, Enum, Text, func, select, text, update
from sqlalchemy.dialects.postgresql import UUID
from sqlalchemy.orm import declarative_base

Base = declarative_base()
STATES = ("Queued", "Processing", "Complete", "Failed")


class Record(Base):
    __abstract__ = True
    id = Column(UUID(as_uuid=True), primary_key=True, server_default=text("gen_random_uuid()"))
    updated_at = Column(DateTime(timezone=True), server_default=func.now())


class SitemapFile(Record):
    __tablename__ = "sitemap_files"
    domain = Column(Text)
    sitemap_import_status = Column(Enum(*STATES, name="sitemap_import_status"),
                                   server_default="Queued")
    sitemap_import_error = Column(Text)


class Page(Record):
    __tablename__ = "pages"
    url = Column(Text)
    page_processing_status = Column(Enum(*STATES, name="page_processing_status"),
                                    server_default="Queued")
    page_processing_error = Column(Text)


def set_status(model, status_field, ids, status, **more):
    return (update(model).where(model.id.in_(ids)).execution_options(synchronize_session=False)
            .values({status_field: status, "updated_at": func.now(), **more}))


async def claim(session, model, status_field, batch_size):
    """Phase 1: a batch becomes `Processing`; its ids."""
    queued = getattr(model, status_field) == "Queued"
    ids = (await session.execute(select(model.id).where(queued).order_by(model.updated_at)
                                 .limit(batch_size).with_for_update(skip_locked=True))
           ).scalars().all()
    await session.execute(set_status(model, status_field, ids, "Processing"))
    await session.commit()
    return ids
